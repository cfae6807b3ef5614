#include "exec.h"

#include <stddef.h>
#include <string.h>

#include "clock.h"
#include "run.h"

static void resolve(const gw_call *call, int64_t operand) {
    uintptr_t base = (uintptr_t)call->context->bases[call->program->bases[operand]];
    call->context->pointers[operand] = (void *)(base + (uintptr_t)call->plan->operand_offsets[operand]);
}

/* Computes the addresses of all operands. Those in weights and arena do not change between runs of a plan. */
static void resolve_operands(const gw_call *call) {
    gw_context *c = call->context;
    const gw_program *p = call->program;
    c->bases[GW_BASE_NONE] = NULL;
    c->bases[GW_BASE_WEIGHTS] = (void *)(uintptr_t)call->weights;
    c->bases[GW_BASE_ARENA] = c->arena;
    for (int64_t i = 0; i < p->input_count; i++)
        c->bases[GW_BASE_BINDINGS + i] = call->inputs[i];
    for (int64_t i = 0; i < p->output_count; i++)
        c->bases[GW_BASE_BINDINGS + p->input_count + i] = call->outputs[i];
    if (c->plan_serial == call->plan->serial) {
        for (int64_t i = 0; i < p->io_operand_count; i++)
            resolve(call, p->io_operands[i]);
        return;
    }
    for (int64_t i = 0; i < p->operand_count; i++)
        resolve(call, i);
    c->plan_serial = call->plan->serial;
}

static bool poison_start(gw_run *r) {
    const gw_call *c = r->call;
    for (int64_t i = 0; i < c->program->output_count; i++)
        gw_poison_fill(c->outputs[i], c->plan->output_bytes[i]);
    return gw_poison_start(&r->poison, c->program, c->plan, c->context->arena, r->error);
}

static bool execute(gw_run *r) {
    if (r->call->poison && !poison_start(r))
        return false;
    resolve_operands(r->call);
    const gw_plan *plan = r->call->plan;
    if (r->call->spread ? plan->shared : plan->parallel)
        gw_run_parallel(r);
    else
        gw_run_block(r, 0, 0);
    return !atomic_load(&r->failed);
}

/* Like execute, but records an event. */
static bool execute_recorded(gw_run *r) {
    const gw_plan *plan = r->call->plan;
    r->number = gw_next_run();
    gw_event event = {.kind = GW_EVENT_RUN,
                      .run = r->number,
                      .id = plan->serial,
                      .a = plan->arena_bytes,
                      .b = plan->threads,
                      .start = gw_now()};
    bool done = execute(r);
    event.end = gw_now();
    event.slot = done ? GW_OK : (int32_t)r->error->kind;
    gw_record(r->call->recording, &event);
    return done;
}

bool gw_execute(const gw_call *call, gw_error *error) {
    gw_run r;
    memset(&r, 0, call->plan->parallel ? sizeof r : offsetof(gw_run, regions));
    r.team.help = gw_run_help;
    r.team.limit = call->plan->threads - 1;
    r.region_words = (gw_most_chunks(call->plan->threads) + GW_REGION_WORD - 1) / GW_REGION_WORD;
    r.call = call;
    r.error = error;
    pthread_mutex_init(&r.lock, NULL);
    bool done = call->recording ? execute_recorded(&r) : execute(&r);
    pthread_mutex_destroy(&r.lock);
    gw_poison_free(&r.poison);
    return done;
}
