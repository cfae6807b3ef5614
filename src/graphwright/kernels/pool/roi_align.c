/* RoiAlign: see roi_align.py. */

#include "library/sizes.h"

#include "pool/roi_align.gen.h"

/* The pixels of one axis in each bin of a region: those in [range[2 * bin], range[2 * bin + 1]), with the
 * weights of row `bin` of weights[bins, size]. */
struct axis {
    int64_t size, bins, *range;
    float *weights;
};

/* The number of samples of a bin that is `step` pixels long; 0 for lengths that are NaN, and for
 * numbers that do not fit in 31 bits: the share of such samples inside of the image is 0. */
static int64_t samples_of(float step) {
    const float count = __builtin_ceilf(step);
    return count >= 1 && count < (float)(1LL << 31) ? (int64_t)count : 0;
}

/* Adds the weights of a sample to those of a bin. */
static void add_sample(const struct axis *axis, int64_t bin, float at) {
    if (!(at >= -1 && at <= (float)axis->size))
        return;
    const float inside = at<0 ? 0 : at>(float)(axis->size - 1) ? (float)(axis->size - 1) : at;
    const int64_t pixel = (int64_t)inside;
    const float fraction = inside - (float)pixel;
    float *weights = axis->weights + bin * axis->size;
    int64_t *range = axis->range + 2 * bin;
    weights[pixel] += 1 - fraction;
    if (fraction > 0)
        weights[pixel + 1] += fraction;
    range[0] = smaller(range[0], pixel);
    range[1] = larger(range[1], pixel + 1 + (fraction > 0));
}

/* The samples [first, last) of a bin at `start`, `step` pixels long, without most of those outside of the
 * image. */
static void bound_samples(const struct axis *axis, float start, float step, int64_t samples, int64_t *first,
                          int64_t *last) {
    const double spacing = (double)step / (double)samples;
    *first = 0, *last = samples;
    if (!(spacing > 0))
        return;
    const double slack = 2 + 1e-6 * (__builtin_fabs((double)start) + (double)step) / spacing;
    const double low = (-1 - (double)start) / spacing - slack;
    const double high = ((double)axis->size - (double)start) / spacing + slack;
    if (low > 0)
        *first = low < (double)samples ? (int64_t)low : samples;
    if (high < (double)samples)
        *last = high > 0 ? (int64_t)high : 0;
}

/* Weighs the pixels of the region [from, to] along one axis. Returns the number of samples of a bin. */
static int64_t weigh(const struct axis *axis, float from, float to, const struct roi_align_args *a) {
    float scale;
    memcpy(&scale, &a->scale, sizeof scale);
    const float shift = a->half_pixel ? 0.5f : 0;
    const float start = from * scale - shift, whole = to * scale - shift - start;
    const float length = a->half_pixel || whole > 1 || whole != whole ? whole : 1;
    const float step = length / (float)axis->bins;
    const int64_t samples = a->points ? a->points : samples_of(step);
    memset(axis->weights, 0, (size_t)(axis->bins * axis->size) * sizeof(float));
    for (int64_t bin = 0; bin < axis->bins; bin++) {
        int64_t first = 0, last = 0;
        axis->range[2 * bin] = axis->size, axis->range[2 * bin + 1] = 0;
        bound_samples(axis, start + (float)bin * step, step, samples, &first, &last);
        for (int64_t i = first; i < last; i++)
            add_sample(axis, bin, start + (float)bin * step + ((float)i + 0.5f) * step / (float)samples);
    }
    return samples;
}

/* The weighted sum of the rows of a bin, for the columns [first, last). A weight of 0 hides infinities. */
static void sum_rows(float *restrict sums, const float *plane, const struct axis *rows, int64_t bin,
                     int64_t width, int64_t first, int64_t last) {
    const float *weights = rows->weights + bin * rows->size;
    for (int64_t column = first; column < last; column++)
        sums[column] = 0;
    for (int64_t row = rows->range[2 * bin]; row < rows->range[2 * bin + 1]; row++) {
        const float weight = weights[row], *pixels = plane + row * width;
        for (int64_t column = first; weight != 0 && column < last; column++)
            sums[column] += weight * pixels[column];
    }
}

/* The weighted sum of the columns of a bin. */
static float sum_columns(const float *sums, const struct axis *columns, int64_t bin) {
    const float *weights = columns->weights + bin * columns->size;
    float total = 0;
    for (int64_t column = columns->range[2 * bin]; column < columns->range[2 * bin + 1]; column++)
        total += weights[column] != 0 ? weights[column] * sums[column] : 0;
    return total;
}

GW_KERNEL(gw_roi_align_f32) {
    const struct roi_align_args *a = roi_align_args(arg);
    const int64_t height = a->height, width = a->width, bins = a->out_height * a->out_width;
    struct axis rows = {height, a->out_height, scratch, NULL};
    struct axis columns = {width, a->out_width, rows.range + 2 * rows.bins, NULL};
    rows.weights = (float *)(columns.range + 2 * columns.bins);
    columns.weights = rows.weights + rows.bins * height;
    float *sums = columns.weights + columns.bins * width;
    for (int64_t region = begin; region < end; region++) {
        const float *corners = (const float *)buf[ROI_ALIGN_REGIONS] + 4 * region;
        const int64_t image = ((const int64_t *)buf[ROI_ALIGN_IMAGES])[region];
        const int64_t from = image < 0 ? image + a->batch : image;
        float *y = (float *)buf[ROI_ALIGN_Y] + region * a->channels * bins;
        const int64_t samples =
            weigh(&rows, corners[1], corners[3], a) * weigh(&columns, corners[0], corners[2], a);
        if (samples == 0 || from < 0 || from >= a->batch) {
            memset(y, 0, (size_t)(a->channels * bins) * sizeof *y);
            continue;
        }
        int64_t first = width, last = 0;
        for (int64_t bin = 0; bin < columns.bins; bin++) {
            first = smaller(first, columns.range[2 * bin]);
            last = larger(last, columns.range[2 * bin + 1]);
        }
        const float *plane = (const float *)buf[ROI_ALIGN_X] + from * a->channels * height * width;
        for (int64_t channel = 0; channel < a->channels; channel++, plane += height * width)
            for (int64_t row = 0; row < rows.bins; row++) {
                sum_rows(sums, plane, &rows, row, width, first, last);
                for (int64_t column = 0; column < columns.bins; column++)
                    *y++ = sum_columns(sums, &columns, column) / (float)samples;
            }
    }
    return 0;
}
