#include "crash.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 4, MOST_ARGS = 64 };
enum { PATIENCE_MS = 60000, PAUSE_MS = 10 };
enum { IDLE, WRITING, DONE };

static const struct {
    int number;
    const char *name;
} signals[SIGNALS] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}};
static struct sigaction before[SIGNALS];
static atomic_int state; /* of the report */
static _Thread_local volatile bool is_writer __attribute__((tls_model("initial-exec")));

/* Volatile, since a signal handler reads it. In the static TLS block (initial-exec), so that the first access
   of a thread, which may be in a handler, allocates nothing. */
static _Thread_local const gw_site *volatile current __attribute__((tls_model("initial-exec")));

void gw_set_site(const gw_site *site) { current = site; }

static _Thread_local const gw_crash_run *running;

const gw_crash_run *gw_set_crash_run(const gw_crash_run *run) {
    const gw_crash_run *before_it = running;
    running = run;
    return before_it;
}

const gw_crash_run *gw_current_crash_run(void) { return running; }

/* ---- the report ---- */

typedef struct {
    int position; /* of the signal */
    const siginfo_t *info;
    const gw_site *site;
} fault;

static void put_args(gw_crash_text *to, const gw_site *site) {
    gw_put(to, "  arguments:");
    const int64_t shown = site->arg_count < MOST_ARGS ? site->arg_count : MOST_ARGS;
    for (int64_t i = 0; i < shown; i++) {
        gw_put(to, " ");
        gw_put_number(to, site->args[i]);
    }
    gw_put(to, shown < site->arg_count ? " ...\n" : shown == 0 ? " none\n" : "\n");
}

static void report(gw_crash_text *to, const void *data) {
    const fault *what = data;
    const gw_site *site = what->site;
    gw_put(to, "graphwright: ");
    gw_put(to, signals[what->position].name);
    gw_put(to, " in a kernel");
    if (what->info->si_code > 0) {
        gw_put(to, ", at address ");
        gw_put_address(to, what->info->si_addr);
    }
    gw_put(to, "\n");
    gw_put_filled(to, site->text, site->args, site->arg_count, site->registers, site->register_count);
    put_args(to, site);
    gw_put(to, "  units: ");
    gw_put_number(to, site->begin);
    gw_put(to, " to ");
    gw_put_number(to, site->end);
    gw_put(to, " of ");
    gw_put_number(to, site->grid);
    gw_put(to, "\n");
    gw_flush(to);
}

/* ---- signals ---- */

/* Calls the previous handler, or does the default action of the signal. */
static void pass_on(int position, siginfo_t *info, void *context) {
    const struct sigaction *to = &before[position];
    const int number = signals[position].number;
    const int was_sent = info->si_code <= 0; /* a fault, in contrast, recurs when the handler returns */
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

/* Waits until the report of another thread is written: returning from a fault ends the process. */
static void wait_for_report(void) {
    for (int waited = 0; waited < PATIENCE_MS && atomic_load(&state) == WRITING && !is_writer;
         waited += PAUSE_MS)
        poll(NULL, 0, PAUSE_MS);
}

static void write_all(const fault *what) {
    gw_crash_text console = {.file = STDERR_FILENO};
    is_writer = true;
    report(&console, what);
    if (what->site->run)
        gw_write_crash_folder(what->site->run, report, what, &console);
    is_writer = false;
}

static void handle(int number, siginfo_t *info, void *context) {
    const int kept = errno;
    const gw_site *site = current;
    int position = 0, idle = IDLE;
    while (position < SIGNALS - 1 && signals[position].number != number)
        position++;
    current = NULL; /* a fault in the code below is not one of a kernel */
    if (site && atomic_compare_exchange_strong(&state, &idle, WRITING)) {
        write_all(&(fault){position, info, site});
        atomic_store(&state, DONE);
    } else {
        wait_for_report();
    }
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
