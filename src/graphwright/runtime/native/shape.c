#include "shape.h"

static int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

static int64_t floor_modulo(int64_t a, int64_t b) {
    int64_t rest = a % b;
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static bool check_failed(int64_t index, int64_t a, int64_t b, gw_error *error) {
    error->a = index, error->b = a, error->c = b;
    return gw_fail(error, GW_E_CHECK, "the check of instruction %lld failed: %lld and %lld", (long long)index,
                   (long long)a, (long long)b);
}

static bool step(const gw_instruction *i, int64_t index, const int64_t *r, int64_t *value, gw_error *error) {
    int64_t a = r[i->a], b = r[i->b];
    bool overflow = false;
    switch (i->code) {
    case GW_ADD: overflow = __builtin_add_overflow(a, b, value); break;
    case GW_SUB: overflow = __builtin_sub_overflow(a, b, value); break;
    case GW_MUL: overflow = __builtin_mul_overflow(a, b, value); break;
    case GW_FLOORDIV:
    case GW_MOD:
        if (b == 0)
            return gw_fail(error, GW_E_PLAN, "division by zero at instruction %lld of the shape program",
                           (long long)index);
        if (b == -1) /* INT64_MIN / -1 traps */
            overflow = __builtin_sub_overflow(0, i->code == GW_MOD ? 0 : a, value);
        else
            *value = i->code == GW_MOD ? floor_modulo(a, b) : floor_divide(a, b);
        break;
    case GW_MIN: *value = a < b ? a : b; break;
    case GW_MAX: *value = a > b ? a : b; break;
    case GW_CHECK_EQ:
    case GW_GUARD_EQ: *value = a; return a == b || check_failed(index, a, b, error);
    case GW_GUARD_NE: *value = a; return a != b || check_failed(index, a, b, error);
    default: *value = a; return a <= b || check_failed(index, a, b, error);
    }
    if (overflow)
        return gw_fail(error, GW_E_PLAN, "int64 overflow at instruction %lld of the shape program",
                       (long long)index);
    return true;
}

/* Checks that the dims of the inputs equal those that the program computes for them. */
static bool check_inputs(const gw_program *p, const int64_t *dims, const int64_t *registers,
                         gw_error *error) {
    for (int64_t i = 0; i < p->input_count; dims += p->inputs[i++].dims.count)
        for (int64_t axis = 0; axis < p->inputs[i].dims.count; axis++) {
            int64_t expected = registers[p->inputs[i].dims.at[axis]];
            error->a = i, error->b = axis;
            if (dims[axis] != expected)
                return gw_fail(error, GW_E_FEED, "axis %lld of input %lld must be %lld, but is %lld",
                               (long long)axis, (long long)i, (long long)expected, (long long)dims[axis]);
        }
    return true;
}

bool gw_shape_evaluate(const gw_program *p, const int64_t *dims, int64_t *registers, gw_error *error) {
    for (int64_t index = 0; index < p->shape_count; index++) {
        const gw_instruction *i = &p->shape[index];
        if (i->code == GW_CONST) {
            registers[index] = i->a;
        } else if (i->code == GW_DIM) {
            registers[index] = dims[p->inputs[i->a].first_dim + i->b];
        } else if (!step(i, index, registers, &registers[index], error)) {
            return false;
        }
    }
    return check_inputs(p, dims, registers, error);
}

bool gw_dense_bytes(int64_t item, gw_list dims, const int64_t *registers, int64_t *bytes) {
    *bytes = item;
    for (int64_t i = 0; i < dims.count; i++)
        if (registers[dims.at[i]] < 0 || __builtin_mul_overflow(*bytes, registers[dims.at[i]], bytes))
            return false;
    return true;
}
