#include "crash.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 4, MOST_ARGS = 64, LINE = 256 };

static const struct {
    int number;
    const char *name;
} signals[SIGNALS] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}};
static struct sigaction before[SIGNALS];

/* Volatile: a handler reads it. Of the process's own block: reading it first in a handler takes no memory. */
static _Thread_local const gw_site *volatile current __attribute__((tls_model("initial-exec")));

void gw_set_site(const gw_site *site) { current = site; }

/* ---- writing, with nothing but what a handler may call ---- */

typedef struct {
    size_t used;
    char text[LINE];
} line;

static void flush(line *to) {
    for (size_t done = 0; done < to->used;) {
        ssize_t written = write(STDERR_FILENO, to->text + done, to->used - done);
        if (written < 0 && errno != EINTR)
            break;
        if (written > 0)
            done += (size_t)written;
    }
    to->used = 0;
}

static void put(line *to, const char *text) {
    for (; *text; text++) {
        if (to->used == LINE)
            flush(to);
        to->text[to->used++] = *text;
    }
}

static void put_unsigned(line *to, uint64_t number, unsigned base) {
    char digits[24];
    size_t at = sizeof digits;
    digits[--at] = 0;
    do
        digits[--at] = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    put(to, digits + at);
}

static void put_number(line *to, int64_t number) {
    if (number < 0)
        put(to, "-");
    put_unsigned(to, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, 10);
}

static void report(int position, const siginfo_t *info, const gw_site *site) {
    line to = {0};
    put(&to, "graphwright: ");
    put(&to, signals[position].name);
    put(&to, " in a kernel");
    if (info->si_code > 0) {
        put(&to, ", at address 0x");
        put_unsigned(&to, (uint64_t)(uintptr_t)info->si_addr, 16);
    }
    put(&to, "\n");
    put(&to, site->text);
    put(&to, "  arguments:");
    const int64_t shown = site->arg_count < MOST_ARGS ? site->arg_count : MOST_ARGS;
    for (int64_t i = 0; i < shown; i++) {
        put(&to, " ");
        put_number(&to, site->args[i]);
    }
    put(&to, shown < site->arg_count ? " ...\n" : shown == 0 ? " none\n" : "\n");
    put(&to, "  units: ");
    put_number(&to, site->begin);
    put(&to, " to ");
    put_number(&to, site->end);
    put(&to, " of ");
    put_number(&to, site->grid);
    put(&to, "\n");
    flush(&to);
}

/* ---- signals ---- */

/* What would have happened without us. */
static void pass_on(int position, siginfo_t *info, void *context) {
    const struct sigaction *to = &before[position];
    const int number = signals[position].number;
    const int was_sent = info->si_code <= 0; /* a fault comes again when the handler returns */
    if (to->sa_flags & SA_SIGINFO) {
        to->sa_sigaction(number, info, context);
    } else if (to->sa_handler == SIG_IGN && was_sent) {
        return;
    } else if (to->sa_handler == SIG_DFL || to->sa_handler == SIG_IGN) {
        signal(number, SIG_DFL);
        if (was_sent)
            raise(number);
    } else {
        to->sa_handler(number);
    }
}

static void handle(int number, siginfo_t *info, void *context) {
    const int kept = errno;
    const gw_site *site = current;
    int position = 0;
    while (position < SIGNALS - 1 && signals[position].number != number)
        position++;
    current = NULL; /* it is said once */
    if (site)
        report(position, info, site);
    errno = kept;
    pass_on(position, info, context);
}

static void install(void) {
    struct sigaction ours;
    memset(&ours, 0, sizeof ours);
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    for (int i = 0; i < SIGNALS; i++)
        sigaction(signals[i].number, &ours, &before[i]);
}

void gw_watch_crashes(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install);
}
