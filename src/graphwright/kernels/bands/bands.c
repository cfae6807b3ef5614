/* Chains of convolutions, band by band: see bands.py. */

#include "library/windows.h"

#include "bands/bands.gen.h"

/* Elements of an extent function's output: see targets/cpu/c/extent.py. */
enum { OUT_GRID, OUT_SCRATCH, OUT_HOOK = 5, OUT_ARGS, OUT_FIRST };
/* Numbers per part: the address of its extent function, its first argument, the number of arguments, its
 * first operand, the number of operands, and a bit mask of the operands that are in scratch. */
enum { PART_NUMBERS = 6 };
#define MOST_SIZE ((int64_t)1 << 28) /* limit of a size, so that a product of two sizes does not overflow */
#define MOST_RING 1e14
enum { REFUSED = 1 };

/* A product of arguments, which may have any values, limited to MOST_SIZE. */
static int64_t clamped_size(double x) { return x < MOST_SIZE ? (int64_t)x : MOST_SIZE; }

struct stage {
    const struct kind *kind;
    const int64_t *arg;
    int64_t args, operands, first_arg, first_operand;
    int64_t result, pixels; /* of a hook whose result is in a ring: the operand, and the argument that counts
                               pixels; or -1 */
    int64_t images;         /* bit mask: operands of the hook that are images of the result's shape */
    int64_t h, oh, stride, pad, reach;
    int64_t row;    /* elements of an output row: of a block of channels, or of one channel if y is planar */
    int64_t blocks; /* blocks of channels; channels if y is planar */
    int64_t room;   /* output rows that the ring can hold */
    int64_t block;  /* elements between blocks of channels in the ring */
    float *ring;    /* NULL for the last stage */
    int64_t from, to; /* rows of the output that the ring holds */
};

struct chain {
    int64_t count, rows, bands, unit, images; /* unit: bands per unit of the grid */
    int64_t rings, scratch;                   /* bytes of all rings, and of the scratch of one stage */
    char *own;                                /* the scratch of the running stage */
    struct stage stages[STAGES];
};

static int64_t rows_read(const struct stage *s, int64_t rows) {
    return smaller(s->h, (rows - 1) * s->stride + s->reach);
}

static int read_stage(struct stage *s, const int64_t *arg, int64_t args, int64_t at) {
    if (args - at < STAGE_ARGS)
        return 0;
    const struct stage_args *head = (const struct stage_args *)(arg + at);
    if (head->kind < 0 || head->kind >= KINDS || head->args < 0 || head->args > MOST_ARGS ||
        head->args > args - at - STAGE_ARGS || head->operands < 0 || head->operands > MOST_OPERANDS)
        return 0;
    const struct kind *k = &kinds[head->kind];
    if (head->args < k->args || head->operands < k->operands + 1)
        return 0;
    const int64_t *own = arg + at + STAGE_ARGS;
    *s = (struct stage){
        .kind = k,
        .arg = own,
        .args = head->args,
        .operands = head->operands,
        .first_arg = at + STAGE_ARGS,
        .result = head->result,
        .pixels = head->pixels,
        .images = head->images,
        .h = own[k->h],
        .oh = own[k->oh],
        .stride = own[k->stride_h],
        .pad = own[k->pad_top],
        .reach = clamped_size((double)(own[k->kh] - 1) * (double)own[k->dilation_h] + 1),
    };
    const int64_t lanes = k->y_lanes < 0 ? VL : own[k->y_lanes];
    const int64_t channels = own[k->groups] * own[k->cout];
    s->row = own[k->ow] * lanes;
    s->blocks = lanes == 1        ? channels
                : k->is_depthwise ? ceildiv(own[k->groups], VL)
                                  : own[k->groups] * ceildiv(own[k->cout], VL);
    const int64_t sizes[] = {own[k->groups], own[k->cin], own[k->cout], own[k->w], own[k->ow], s->h, s->oh};
    int fits = s->stride > 0 && s->stride < MOST_SIZE && s->reach > 0 && s->reach < MOST_SIZE &&
               s->pad > -MOST_SIZE && s->pad < MOST_SIZE;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        fits &= sizes[i] >= 0 && sizes[i] < MOST_SIZE;
    return fits;
}

/* Reads the arguments; returns 0 if they do not describe a chain. */
static int read_chain(struct chain *c, const int64_t *arg, int64_t args) {
    if (args < BANDS_ARGS)
        return 0;
    const struct bands_args *head = bands_args(arg);
    if (head->args != args || head->stages < 2 || head->stages > STAGES || head->rows < 1 || head->unit < 1 ||
        head->scratch < 0)
        return 0;
    *c = (struct chain){
        .count = head->stages, .rows = head->rows, .unit = head->unit, .scratch = head->scratch};
    int64_t at = BANDS_ARGS, operand = 0;
    for (int64_t i = 0; i < c->count; i++) {
        struct stage *s = &c->stages[i];
        if (!read_stage(s, arg, args, at))
            return 0;
        s->first_operand = operand;
        operand += s->operands;
        at += STAGE_ARGS + s->args;
    }
    c->images = c->stages[0].arg[c->stages[0].kind->images];
    if (c->images < 0 || c->images >= MOST_SIZE)
        return 0;
    struct stage *last = &c->stages[c->count - 1];
    last->room = smaller(c->rows, last->oh);
    c->bands = ceildiv(last->oh, c->rows);
    for (int64_t i = c->count - 1; i-- > 0;) {
        struct stage *s = &c->stages[i];
        const struct stage *next = s + 1;
        const struct kind *k = next->kind;
        const int64_t inputs = k->is_depthwise ? ceildiv(next->arg[k->groups], VL)
                                               : next->arg[k->groups] * ceildiv(next->arg[k->cin], VL);
        if (next->h != s->oh || next->arg[k->w] * VL != s->row || inputs != s->blocks ||
            next->arg[k->images] != c->images)
            return 0;
        s->room = larger(0, rows_read(next, next->room));
        s->block = s->room * s->row + BLOCK_PAD;
        if ((double)s->block * (double)s->blocks > MOST_RING)
            return 0;
        c->rings += ceildiv(4 * s->block * s->blocks, 64) * 64;
    }
    return 1;
}

static void place_rings(struct chain *c, char *scratch) {
    for (int64_t i = 0; i + 1 < c->count; i++) {
        struct stage *s = &c->stages[i];
        s->ring = (float *)scratch;
        scratch += ceildiv(4 * s->block * s->blocks, 64) * 64;
    }
    c->own = scratch;
}

static void shift(void **operand, int64_t elements) {
    if (*operand)
        *operand = (float *)*operand + elements;
}

/* Sets a stage's input to rows [first, last). */
static void find_input(const struct chain *c, const struct stage *s, int64_t image, int64_t first, void **buf,
                       int64_t *arg) {
    const struct kind *k = s->kind;
    if (s == c->stages) {
        shift(&buf[k->x], image * arg[k->x_n] + first * arg[k->x_h]);
        return;
    }
    const struct stage *before = s - 1;
    buf[k->x] = before->ring + (first - before->from) * before->row;
    arg[k->x_n] = 0;
    arg[k->x_c] = before->block;
    arg[k->x_h] = before->row;
}

/* Sets a stage's output to the rows from `first` on. */
static void find_output(const struct stage *s, int64_t image, int64_t first, void **buf, int64_t *arg) {
    const struct kind *k = s->kind;
    shift(&buf[k->residual], image * arg[k->r_n] + first * arg[k->r_h]);
    if (s->ring) {
        float *const to = s->ring + (first - s->from) * s->row;
        arg[k->y_n] = 0;
        arg[k->y_c] = s->block;
        arg[k->y_h] = s->row;
        if (s->result < 0) {
            buf[k->y] = to;
            return;
        }
        buf[s->result] = to;
        arg[s->pixels] = s->block / VL;
        return;
    }
    shift(&buf[k->y], image * arg[k->y_n] + first * arg[k->y_h]);
    for (int64_t i = k->operands + 1; i < s->operands; i++)
        if (s->images >> i & 1)
            shift(&buf[i], (image * s->blocks * s->oh + first) * s->row);
}

/* Computes rows [first, last) of a stage's output. */
static int32_t run_stage(const struct chain *c, const struct stage *s, void *const *operands, int64_t image,
                         int64_t first, int64_t last) {
    const struct kind *k = s->kind;
    int64_t arg[MOST_ARGS];
    void *buf[MOST_OPERANDS];
    double out[OUT_FIRST + MOST_OPERANDS];
    memcpy(arg, s->arg, (size_t)s->args * sizeof *arg);
    memcpy(buf, operands + s->first_operand, (size_t)s->operands * sizeof *buf);
    const int64_t top = first * s->stride - s->pad, from = larger(0, top);
    const int64_t to = smaller(s->h, (last - 1) * s->stride - s->pad + s->reach);
    arg[k->images] = 1;
    find_input(c, s, image, from, buf, arg);
    find_output(s, image, first, buf, arg);
    arg[k->h] = larger(0, to - from);
    arg[k->oh] = last - first;
    arg[k->pad_top] = from - top;
    out[OUT_GRID] = 0;
    out[OUT_HOOK] = buf[k->operands] != NULL;
    if (k->extent(arg, s->args, s->operands, out) != 0 || out[OUT_SCRATCH] > (double)c->scratch)
        return REFUSED;
    return k->run(buf, arg, 0, (int64_t)out[OUT_GRID], c->own);
}

/* Drops the rows of a ring before row `first`. */
static void slide(struct stage *s, int64_t first) {
    const int64_t kept = larger(0, s->to - first), skipped = first - s->from;
    if (kept > 0 && skipped > 0)
        for (int64_t b = 0; b < s->blocks; b++) {
            float *const block = s->ring + b * s->block;
            memmove(block, block + skipped * s->row, (size_t)(kept * s->row) * sizeof *block);
        }
    s->from = first;
    s->to = first + kept;
}

/* Computes rows [first, last) of the result. The rings still hold rows of the band before, if there is one.
 */
static int32_t run_band(struct chain *c, void *const *operands, int64_t image, int64_t first, int64_t last) {
    int64_t wanted[STAGES][2];
    for (int64_t i = c->count; i-- > 0;) {
        wanted[i][0] = first;
        wanted[i][1] = last;
        const struct stage *s = &c->stages[i];
        last = larger(0, smaller(s->h, (last - 1) * s->stride - s->pad + s->reach));
        first = smaller(last, larger(0, first * s->stride - s->pad));
    }
    for (int64_t i = 0; i < c->count; i++) {
        struct stage *s = &c->stages[i];
        int64_t begin = wanted[i][0];
        if (s->ring) {
            slide(s, begin);
            begin = s->to;
            s->to = larger(s->to, wanted[i][1]);
        }
        if (begin >= wanted[i][1])
            continue;
        const int32_t error = run_stage(c, s, operands, image, begin, wanted[i][1]);
        if (error)
            return error;
    }
    return 0;
}

GW_EXPORT int32_t gw_bands_extent(const int64_t *arg, int64_t args, int64_t operands, double *out);
GW_EXPORT int32_t gw_bands_extent(const int64_t *arg, int64_t args, int64_t operands, double *out) {
    struct chain c;
    if (!read_chain(&c, arg, args))
        return REFUSED;
    const struct stage *last = &c.stages[c.count - 1];
    if (last->first_operand + last->operands > operands)
        return REFUSED;
    double *part = out + OUT_FIRST;
    for (int64_t i = 0; i < c.count; i++, part += PART_NUMBERS) {
        const struct stage *s = &c.stages[i];
        const int hooked = s->result >= 0, inner = s < last;
        if (s->result >= s->operands || s->pixels >= s->args || (hooked && s->pixels < 0))
            return REFUSED;
        const int64_t inside = (int64_t)(i > 0) << s->kind->x | (int64_t)inner
                                                                    << (hooked ? s->result : s->kind->y);
        const double numbers[PART_NUMBERS] = {
            (double)(uintptr_t)s->kind->extent, (double)s->first_arg, (double)s->args,
            (double)s->first_operand,           (double)s->operands,  (double)inside};
        memcpy(part, numbers, sizeof numbers);
    }
    out[OUT_GRID] = (double)c.images * (double)ceildiv(c.bands, c.unit);
    out[OUT_SCRATCH] = (double)c.rings + (double)c.scratch;
    out[OUT_ARGS] = (double)-c.count;
    return 0;
}

GW_KERNEL(gw_bands) {
    struct chain c;
    if (!read_chain(&c, arg, bands_args(arg)->args))
        return REFUSED;
    const struct stage *last = &c.stages[c.count - 1];
    place_rings(&c, scratch);
    const int64_t units = larger(1, ceildiv(c.bands, c.unit));
    for (int64_t unit = begin; unit < end; unit++) {
        const int64_t image = unit / units, band = unit % units * c.unit;
        const int64_t stop = smaller(last->oh, (band + c.unit) * c.rows);
        for (int64_t i = 0; i < c.count && (unit == begin || band == 0); i++)
            c.stages[i].from = c.stages[i].to = 0;
        for (int64_t first = band * c.rows; first < stop; first += c.rows) {
            const int32_t error = run_band(&c, buf, image, first, smaller(stop, first + c.rows));
            if (error)
                return error;
        }
    }
    return 0;
}
