/* Asynchronous runs on threads of the library: a queue, and threads that are started on demand. */
#include <pthread.h>
#include <signal.h>

#include "pool.h"
#include "request.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards all of these */
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER, has_ended = PTHREAD_COND_INITIALIZER;
static gw_request *first, **last = &first;
static int threads, idle, queued;
static _Thread_local const gw_request *called_back; /* whose callback this thread is in */

/* ---- threads ---- */

static gw_request *take_request(void) {
    pthread_mutex_lock(&lock);
    idle++;
    while (!first)
        pthread_cond_wait(&has_work, &lock);
    idle--, queued--;
    gw_request *request = first;
    first = request->next;
    if (!first)
        last = &first;
    pthread_mutex_unlock(&lock);
    return request;
}

static void run_started(gw_request *request) {
    gw_callback callback = request->callback; /* a copy: the callback may start the request again */
    void *user = request->user;
    gw_status status = request_run(request);
    request->status = status;
    atomic_store(&request->is_busy, false);
    if (callback) {
        called_back = request;
        callback(request, status, status == GW_STATUS_OK ? NULL : gw_error_text(), user);
        called_back = NULL;
    }
    pthread_mutex_lock(&lock);
    if (--request->pending == 0)
        pthread_cond_broadcast(&has_ended);
    pthread_mutex_unlock(&lock);
}

static void *work(void *unused) {
    (void)unused;
    for (;;)
        run_started(take_request());
    return NULL;
}

/* Starts a thread that blocks all signals; the lock is held. */
static bool start_thread(void) {
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, work, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!started)
        return false;
    pthread_detach(thread);
    threads++;
    return true;
}

/* ---- forks: the child has none of these threads, so their runs never finish ---- */

static void before_fork(void) { pthread_mutex_lock(&lock); }

static void after_fork_in_parent(void) { pthread_mutex_unlock(&lock); }

static void after_fork_in_child(void) {
    first = NULL, last = &first;
    threads = idle = queued = 0;
    pthread_cond_init(&has_work, NULL);
    pthread_cond_init(&has_ended, NULL);
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void) {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- the interface ---- */

static void put_request(gw_request *request) {
    request->next = NULL;
    request->pending++;
    queued++;
    *last = request;
    last = &request->next;
    pthread_cond_signal(&has_work);
}

gw_status gw_request_start(gw_request *request, gw_callback callback, void *user) {
    bool is_idle = false;
    if (!request)
        return fail(GW_STATUS_ARGUMENT, "request: NULL");
    if (!atomic_compare_exchange_strong(&request->is_busy, &is_idle, true))
        return fail(GW_STATUS_ARGUMENT, "the request is busy: wait with gw_request_wait");
    request->callback = callback;
    request->user = user;
    pthread_mutex_lock(&lock);
    bool serves = queued < idle || (threads < gw_pool_threads() && start_thread()) || threads > 0;
    if (serves)
        put_request(request);
    pthread_mutex_unlock(&lock);
    if (serves)
        return GW_STATUS_OK;
    atomic_store(&request->is_busy, false);
    return fail(GW_STATUS_MEMORY, "cannot start a thread");
}

void request_wait(gw_request *request) {
    pthread_mutex_lock(&lock);
    while (request->pending > 0)
        pthread_cond_wait(&has_ended, &lock);
    pthread_mutex_unlock(&lock);
}

gw_status gw_request_wait(gw_request *request) {
    if (!request)
        return fail(GW_STATUS_ARGUMENT, "request: NULL");
    if (request == called_back)
        return fail(GW_STATUS_ARGUMENT, "a callback waits for its own request, which ends after it: return");
    request_wait(request);
    return request->status;
}
