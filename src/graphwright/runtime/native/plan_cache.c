/* An LRU cache of plans that all threads share. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "events.h"
#include "plan.h"
#include "process.h"

/* ---- with the global lock held ---- */

static gw_plan *find(gw_plan_cache *cache, const gw_program *program, const int64_t *dims, int threads) {
    size_t bytes = (size_t)program->input_dim_count * sizeof *dims;
    for (gw_plan **at = &cache->first; *at; at = &(*at)->next) {
        gw_plan *plan = *at;
        if (plan->threads != threads || (bytes > 0 && memcmp(plan->dims, dims, bytes) != 0))
            continue;
        *at = plan->next;
        plan->next = cache->first;
        cache->first = plan;
        plan->references++;
        return plan;
    }
    return NULL;
}

/* Adds a plan to the cache. Returns the plan that is evicted, which the caller releases, or NULL. */
static gw_plan *insert(gw_plan_cache *cache, gw_plan *plan) {
    plan->references++;
    plan->next = cache->first;
    cache->first = plan;
    if (++cache->count <= cache->bound)
        return NULL;
    gw_plan **last = &cache->first;
    while ((*last)->next)
        last = &(*last)->next;
    gw_plan *oldest = *last;
    *last = NULL;
    cache->count--;
    cache->evictions++;
    return oldest;
}

/* ---- without it ---- */

static gw_plan *kept(gw_plan_cache *cache, const gw_program *program, const int64_t *dims, int threads) {
    gw_global_lock();
    gw_plan *plan = find(cache, program, dims, threads);
    *(plan ? &cache->hits : &cache->misses) += 1;
    gw_global_unlock();
    return plan;
}

static gw_plan *take(gw_plan_cache *cache, const gw_program *program, const gw_links *links,
                     const int64_t *dims, int threads, bool *hit, gw_error *error) {
    gw_plan *plan = kept(cache, program, dims, threads);
    *hit = plan != NULL;
    if (plan || !(plan = gw_plan_make(program, links, dims, threads, error)))
        return plan;
    gw_global_lock();
    gw_plan *other = find(cache, program, dims, threads); /* another thread may have added it meanwhile */
    gw_plan *old = other ? plan : insert(cache, plan);
    gw_global_unlock();
    if (old)
        gw_plan_release(old);
    return other ? other : plan;
}

gw_plan *gw_plan_take(gw_plan_cache *cache, const gw_program *program, const gw_links *links,
                      const int64_t *dims, int threads, gw_error *error) {
    bool hit;
    if (!gw_is_recording())
        return take(cache, program, links, dims, threads, &hit, error);
    gw_event event = {.kind = GW_EVENT_PLAN, .start = gw_now()};
    gw_plan *plan = take(cache, program, links, dims, threads, &hit, error);
    event.end = gw_now();
    event.id = plan ? plan->serial : 0;
    event.a = hit;
    gw_note(&event);
    return plan;
}

void gw_plan_release(gw_plan *plan) {
    gw_global_lock();
    bool last = --plan->references == 0;
    gw_global_unlock();
    if (last)
        free(plan);
}

void gw_plan_cache_clear(gw_plan_cache *cache) {
    gw_global_lock();
    gw_plan *plan = cache->first;
    cache->first = NULL;
    cache->count = 0;
    gw_global_unlock();
    while (plan) {
        gw_plan *next = plan->next; /* runs of the plan do not use this field */
        gw_plan_release(plan);
        plan = next;
    }
}
