/* Winograd convolution with tiles of M x M pixels and N points per line. Included by winograd.c. */

#define OF(name) GW_JOIN(name, M)

/* The number of points of a line with `left` pixels: the last tile of a line may have 2 pixels. */
GW_INLINE int64_t OF(points)(int64_t pixels) { return pixels > 2 ? N : 4; }

/* Transforms the columns of a run vertically, to [column][N][VL]; pixels outside the image are zeros. */
GW_INLINE void OF(input_columns)(const struct conv *g, const struct unit *o, int64_t n, const float *x,
                                 int64_t y0, int64_t x0, int64_t columns, float *to) {
    const int64_t from_h = g->s.x_h * g->s.dilation, step = g->pixel;
    const int64_t top = y0 < 0 ? -y0 : 0, bottom = smaller(n, o->rows.size - y0);
    const int64_t first = x0 < 0 ? smaller(-x0, columns) : 0;
    const int64_t inside = smaller(columns, o->columns.size - x0);
    const int64_t last = top < bottom && inside > first ? inside : first;
    memset(to, 0, (size_t)(first * N * VL) * sizeof *to);
    memset(to + last * N * VL, 0, (size_t)((columns - last) * N * VL) * sizeof *to);
    if (first == last)
        return;
    const float *from = x + (y0 + top) * from_h + (x0 + first) * step;
    to += first * N * VL;
    for (int64_t c = first; c < last; c++, from += step, to += N * VL) {
        vf d[N], points[N];
        if (top == 0 && bottom == n) {
#pragma GCC unroll 6
            for (int64_t i = 0; i < n; i++)
                d[i] = vf_load(from + i * from_h);
        } else {
#pragma GCC unroll 6
            for (int64_t i = 0; i < n; i++)
                d[i] = i >= top && i < bottom ? vf_load(from + (i - top) * from_h) : (vf){0};
        }
        input_line(n, d, points);
#pragma GCC unroll 6
        for (int64_t i = 0; i < n; i++)
            vf_store(to + i * VL, points[i]);
    }
}

/* Transforms the columns of points of a tile horizontally, and stores them to the planes. */
GW_INLINE void OF(input_tile)(const struct conv *g, int64_t rows, int64_t columns, const float *from,
                              float *to, const struct offsets *o) {
#pragma GCC unroll 6
    for (int64_t i = 0; i < rows; i++, from += VL, to += N * g->in_plane) {
        const int64_t *at = o->at[i >= g->row_points];
        vf d[N], points[N];
#pragma GCC unroll 6
        for (int64_t j = 0; j < columns; j++)
            d[j] = vf_load(from + j * N * VL);
        input_line(columns, d, points);
#pragma GCC unroll 6
        for (int64_t j = 0; j < columns; j++)
            vf_store(to + at[j >= g->column_points] + j * g->in_plane, points[j]);
    }
}

/* Fills the planes [N * N][product][K_RUN channels][ROWS][K_RUN] of the unit's tiles. */
static void OF(transform_input)(const struct conv *g, const struct unit *o) {
    float columns[(RUN * M + 2) * N * VL] __attribute__((aligned(64)));
    const float *image = g->x + o->image * g->s.x_n + o->rows.from * g->s.x_h + o->columns.from * VL;
    struct offsets offsets[RUN];
    for (int64_t at = 0; at < o->tiles;) {
        const struct run r = run_at(g, o, at);
        const int64_t y0 = r.row * M - o->rows.pad, x0 = r.column * M - o->columns.pad;
        const int64_t rows = OF(points)(g->oh - r.row * M), width = g->ow - r.column * M;
        const int64_t count = (r.count - 1) * M + OF(points)(width - (r.count - 1) * M);
        for (int64_t t = 0; t < r.count; t++)
            offsets[t] = input_offsets(g, o, r.row, r.column + t);
        for (int64_t b = 0; b < g->in_blocks; b++) {
            const float *x = image + b * g->s.x_cb;
            const int64_t lane = b * VL % K_RUN;
            float *to = g->in + (b * VL - lane) * ROWS + lane;
            if (rows == N)
                OF(input_columns)(g, o, N, x, y0, x0, count, columns);
            else
                OF(input_columns)(g, o, 4, x, y0, x0, count, columns);
            for (int64_t t = 0; t < r.count; t++) {
                const float *from = columns + t * M * N * VL;
                const int whole = OF(points)(width - t * M) == N;
                if (rows == N && whole)
                    OF(input_tile)(g, N, N, from, to, &offsets[t]);
                else if (rows == N)
                    OF(input_tile)(g, N, 4, from, to, &offsets[t]);
                else if (whole)
                    OF(input_tile)(g, 4, N, from, to, &offsets[t]);
                else
                    OF(input_tile)(g, 4, 4, from, to, &offsets[t]);
            }
        }
        at += r.count;
    }
}

/* Computes the products of a group of output channels in all planes. */
static void OF(multiply)(const struct conv *g, const struct unit *o, const struct outputs *c) {
    const int64_t cin = g->s.cin, panel = cin * c->count * VL;
    const float *w = g->w + c->first * N * STORED * cin * VL;
    for (int64_t line = 0; line < N; line++, w += STORED * panel) {
        for (int64_t column = 0; column < N; column++) {
            const int64_t plane = line * N + column;
            const struct plane_tiles *p = &o->planes[line >= g->row_points][column >= g->column_points];
            const float *in = g->in + plane * g->in_plane;
            const float *u = column < STORED ? w + column * panel : g->made + (column - STORED) * panel;
            float *y = g->out + plane * g->out_plane;
            if (p->count == 0)
                continue;
            if (column == STORED)
                make_weights(w, panel, g->made);
            /* N planes prefetch the STORED weights evenly; hardware fetches cache lines in pairs */
            const int64_t share = panel * STORED / N;
            const float *ahead = w + (N == STORED ? 1 : 2) * panel + column * share;
            const int64_t fetches = ceildiv(p->count, p->rows) * ceildiv(cin, UNROLL) * FETCHES;
            const int64_t step = smaller(ceildiv(4 * share, fetches), 128);
            for (int64_t at = 0; at < p->count; at += p->rows) {
                product_of[smaller(p->rows, p->count - at) - 1][c->count - 1](cin, in, u, y, ahead, step);
                in += g->in_runs * ROWS * K_RUN;
                y += p->rows * c->count * VL;
                ahead += cin / UNROLL * FETCHES * step / 4;
            }
        }
    }
}

/* Transforms a tile back to pixels [rows][columns][VL]; from: its offsets in the planes, by kind. */
GW_INLINE void OF(output_tile)(const struct conv *g, int64_t rows, int64_t columns, const float *from,
                               const struct offsets *o, vf *to) {
    vf t[M * N];
#pragma GCC unroll 6
    for (int64_t j = 0; j < columns; j++) {
        vf d[N], line[M];
#pragma GCC unroll 6
        for (int64_t i = 0; i < rows; i++)
            d[i] =
                vf_load(from + (i * N + j) * g->out_plane + o->at[i >= g->row_points][j >= g->column_points]);
        output_line(rows, d, line);
#pragma GCC unroll 4
        for (int64_t i = 0; i < rows - 2; i++)
            t[i * N + j] = line[i];
    }
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows - 2; i++)
        output_line(columns, t + i * N, to + i * M);
}

/* Stores the pixels of a tile that are inside the image. */
GW_INLINE void OF(store_tile)(const struct conv *g, int64_t height, int64_t width, const vf *pixels, vf bias,
                              const float *residual, float *to, int64_t to_h, int64_t step) {
    for (int64_t i = 0; i < height; i++, to += to_h) {
#pragma GCC unroll 4
        for (int64_t j = 0; j < width; j++)
            store(g, g->s.act, to + j * step, pixels[i * M + j] + bias,
                  residual ? residual + j * step : NULL);
        residual += residual ? g->s.r_h * g->s.dilation : 0;
    }
}

/* Stores the pixels of a run of tiles of one block of channels, or passes them to the hook. */
static int32_t OF(output_run)(const struct conv *g, const struct unit *o, const struct outputs *c,
                              const struct run *r, int64_t b) {
    const struct winograd_args *s = &g->s;
    const int64_t block = c->first + b;
    const int64_t y0 = r->row * M, x0 = r->column * M, rows = OF(points)(g->oh - y0);
    const int64_t height = smaller(M, o->rows.count - y0),
                  width = smaller(r->count * M, o->columns.count - x0);
    /* a package can ask for a hook and a dilation: pixels that a hook gets are dense in any case */
    const int64_t step = g->hook.call ? VL : g->pixel, apart = s->dilation;
    const int64_t row = o->rows.to + y0 * apart, column = o->columns.to + x0 * apart;
    float pixels[M * RUN * M * VL] __attribute__((aligned(64)));
    const int64_t to_h = g->hook.call ? width * VL : s->y_h * apart;
    float *to =
        g->hook.call ? pixels : g->y + o->image * s->y_n + block * s->y_cb + row * s->y_h + column * VL;
    const float *residual = g->residual;
    if (residual)
        residual += o->image * s->r_n + block * s->r_cb + row * s->r_h + column * VL;
    const vf bias = g->bias ? vf_load(g->bias + block * VL) : (vf){0};
    for (int64_t t = 0; t < r->count; t++) {
        const int64_t x = t * M, columns = OF(points)(g->ow - x0 - x);
        struct offsets offsets;
        vf tile_pixels[M * M];
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++) {
                const int64_t index = number(g, r->row, r->column + t, j) - o->planes[i][j].first;
                offsets.at[i][j] = (index * c->count + b) * VL;
            }
        if (rows == N && columns == N)
            OF(output_tile)(g, N, N, g->out, &offsets, tile_pixels);
        else if (rows == N)
            OF(output_tile)(g, N, 4, g->out, &offsets, tile_pixels);
        else if (columns == N)
            OF(output_tile)(g, 4, N, g->out, &offsets, tile_pixels);
        else
            OF(output_tile)(g, 4, 4, g->out, &offsets, tile_pixels);
        const float *add = residual ? residual + x * step : NULL;
        if (height == M && width - x >= M)
            OF(store_tile)(g, M, M, tile_pixels, bias, add, to + x * step, to_h, step);
        else
            OF(store_tile)(g, height, smaller(M, width - x), tile_pixels, bias, add, to + x * step, to_h,
                           step);
    }
    if (!g->hook.call)
        return 0;
    /* rows of pixels are contiguous if the run covers the width of the image */
    const int64_t lines = width == s->ow ? height : 1, batch = o->image * g->out_blocks + block;
    for (int64_t y = 0; y < height; y += lines) {
        const struct area at = {(y0 + y) * s->ow + x0, lines * width, 0, VL};
        const int32_t error = call_hook(&g->hook, pixels + y * to_h, VL, batch, at);
        if (error)
            return error;
    }
    return 0;
}

static int32_t OF(transform_output)(const struct conv *g, const struct unit *o, const struct outputs *c) {
    for (int64_t at = 0; at < o->tiles;) {
        const struct run r = run_at(g, o, at);
        for (int64_t b = 0; b < c->count; b++) {
            const int32_t error = OF(output_run)(g, o, c, &r, b);
            if (error)
                return error;
        }
        at += r.count;
    }
    return 0;
}

/* Derives the tiles of an image and the parts of scratch from the sizes. */
static void OF(prepare)(struct conv *g, float *scratch) {
    const struct winograd_args *s = &g->s;
    g->lo = float_of(s->lo);
    g->hi = float_of(s->hi);
    g->in_blocks = ceildiv(s->cin, VL);
    g->out_blocks = ceildiv(s->cout, VL);
    g->in_runs = ceildiv(s->cin, K_RUN);
    g->oh = ceildiv(s->oh, s->dilation);
    g->ow = ceildiv(s->ow, s->dilation);
    g->pixel = s->dilation * VL;
    g->row_tiles = ceildiv(g->ow, M);
    g->tile_rows = ceildiv(g->oh, M);
    g->row_points = OF(points)(g->oh - (g->tile_rows - 1) * M);
    g->column_points = OF(points)(g->ow - (g->row_tiles - 1) * M);
    g->in_plane = plane_size(ceildiv(s->block_tiles, ROWS) * ROWS * g->in_runs * K_RUN);
    g->out_plane = plane_size(s->block_tiles * VECTORS * VL);
    g->made = scratch;
    g->out = g->made + (N - STORED) * s->cin * VECTORS * VL;
    g->in = g->out + N * N * g->out_plane;
}

GW_KERNEL(KERNEL) {
    struct conv g = {
        .x = buf[WINOGRAD_X],
        .w = buf[WINOGRAD_W],
        .bias = buf[WINOGRAD_BIAS],
        .residual = buf[WINOGRAD_RESIDUAL],
        .y = buf[WINOGRAD_Y],
        .hook = hook_after(buf, WINOGRAD_OPERANDS, arg, WINOGRAD_ARGS),
    };
    const struct winograd_args *s = &g.s;
    memcpy(&g.s, arg, sizeof g.s);
    OF(prepare)(&g, scratch);
    const int64_t tiles = g.tile_rows * g.row_tiles;
    const int64_t groups = ceildiv(g.out_blocks, VECTORS);
    const int64_t blocks = ceildiv(tiles, s->block_tiles), units = ceildiv(groups, s->unit_groups);
    int64_t transformed = -1;
    for (; begin < end; begin++) {
        const int64_t outer = begin / units, block = outer % blocks, first = begin % units * s->unit_groups;
        const int64_t tile = part_begin(tiles, block, blocks), last = smaller(groups, first + s->unit_groups);
        const int64_t image = outer / blocks, d = s->dilation, phase = image % (d * d);
        struct unit o = {
            .image = image / (d * d),
            .rows = phase_of(phase / d, s->h, s->oh, s->pad_top, d),
            .columns = phase_of(phase % d, s->w, s->ow, s->pad_left, d),
            .tile = tile,
            .tiles = part_begin(tiles, block + 1, blocks) - tile,
        };
        for (int i = 0; i < 4; i++)
            o.planes[i / 2][i % 2] = tiles_of_plane(&g, &o, i / 2, i % 2);
        if (outer != transformed)
            OF(transform_input)(&g, &o);
        transformed = outer;
        for (int64_t b = first; b < last; b++) {
            const int64_t block = part_begin(g.out_blocks, b, groups);
            const struct outputs c = {block, part_begin(g.out_blocks, b + 1, groups) - block};
            OF(multiply)(&g, &o, &c);
            const int32_t error = OF(transform_output)(&g, &o, &c);
            if (error)
                return error;
        }
    }
    return 0;
}
#undef M
#undef N

#undef OF
