/* Runs the tasks of a plan in order on one thread. */
#include "run.h"

static void run_if(gw_run *r, int64_t task, int slot) {
    gw_record_edge(r, task, GW_EVENT_OPEN, slot);
    int64_t selected = gw_selected_block(r, task);
    if (r->call->poison)
        gw_poison_choice(&r->poison, task, selected);
    gw_run_block(r, selected, slot);
    gw_record_edge(r, task, GW_EVENT_CLOSE, slot);
}

void gw_run_iterations(gw_run *r, int64_t task, int slot) {
    for (int64_t number = 0; gw_begin_iteration(r, task, number); number++) {
        if (r->call->poison)
            gw_poison_iteration(&r->poison, task);
        gw_run_block(r, r->call->program->tasks[task].blocks.at[0], slot);
        if (slot == 0 && number % GW_POLL_ITERATIONS == 0)
            gw_poll_interrupt(r);
    }
}

static void run_loop(gw_run *r, int64_t task, int slot) {
    gw_record_edge(r, task, GW_EVENT_OPEN, slot);
    gw_run_iterations(r, task, slot);
    gw_record_edge(r, task, GW_EVENT_CLOSE, slot);
}

void gw_run_block(gw_run *r, int64_t block, int slot) {
    const gw_program *p = r->call->program;
    const gw_block *b = &p->blocks[block];
    for (int64_t task = b->first; task < b->first + b->count; task++) {
        if (atomic_load_explicit(&r->failed, memory_order_relaxed))
            return;
        if (r->call->poison)
            gw_poison_before(&r->poison, task);
        switch (p->tasks[task].kind) {
        case GW_IF: run_if(r, task, slot); break;
        case GW_LOOP: run_loop(r, task, slot); break;
        default: gw_perform_alone(r, task, slot);
        }
        if (r->call->poison && p->tasks[task].kind != GW_IF)
            gw_poison_after(&r->poison, task);
    }
}
