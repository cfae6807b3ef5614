/* Pairwise coupling: see coupling.py. */

#include "library/sizes.h"

#include "ml/coupling.gen.h"

/* Computes Q[classes, classes] from the pairwise probabilities; the result p minimizes p^T Q p. */
static void quadratic(double *q, const float *x, int64_t classes) {
    for (int64_t i = 0; i < classes; ++i)
        q[i * classes + i] = 0;
    for (int64_t i = 0; i < classes; ++i)
        for (int64_t j = i + 1; j < classes; ++j) {
            const double first = *x++, second = 1 - first;
            q[i * classes + i] += second * second;
            q[j * classes + j] += first * first;
            q[i * classes + j] = q[j * classes + i] = -first * second;
        }
}

/* Writes qp = Q p, and returns p^T Q p. */
static double quadratic_form(double *qp, const double *q, const double *p, int64_t classes) {
    double pqp = 0;
    for (int64_t i = 0; i < classes; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < classes; ++j)
            sum += q[i * classes + j] * p[j];
        qp[i] = sum;
        pqp += p[i] * sum;
    }
    return pqp;
}

/* Whether p has not converged yet; NaN has not. */
static int is_unconverged(const double *qp, double pqp, double precision, int64_t classes) {
    int far = 0;
    for (int64_t i = 0; i < classes; ++i) {
        const double off = __builtin_fabs(qp[i] - pqp);
        if (off != off)
            return 0;
        far |= off >= precision / (double)classes;
    }
    return far;
}

/* One iteration: updates each class in turn. */
static void step(double *p, double *qp, double pqp, const double *q, int64_t classes) {
    for (int64_t k = 0; k < classes; ++k) {
        const double own = q[k * classes + k], diff = (pqp - qp[k]) / own, scale = 1 + diff;
        pqp = (pqp + diff * (diff * own + 2 * qp[k])) / (scale * scale);
        p[k] += diff;
        for (int64_t j = 0; j < classes; ++j) {
            qp[j] = (qp[j] + diff * q[k * classes + j]) / scale;
            p[j] /= scale;
        }
    }
}

GW_KERNEL(gw_pairwise_coupling_f32) {
    const struct coupling_args *a = coupling_args(arg);
    const int64_t classes = a->classes, pairs = classes * (classes - 1) / 2;
    const float *x = buf[COUPLING_X];
    float *y = buf[COUPLING_Y];
    double precision;
    memcpy(&precision, &a->precision, sizeof precision);
    double *q = scratch, *qp = q + classes * classes, *p = qp + classes;
    const int64_t last = smaller(end * CHUNK, a->rows);
    for (int64_t row = begin * CHUNK; row < last; ++row) {
        quadratic(q, x + row * pairs, classes);
        for (int64_t i = 0; i < classes; ++i)
            p[i] = 1 / (double)classes;
        for (int64_t round = 0; round < a->rounds; ++round) {
            const double pqp = quadratic_form(qp, q, p, classes);
            if (!is_unconverged(qp, pqp, precision, classes))
                break;
            step(p, qp, pqp, q, classes);
        }
        for (int64_t i = 0; i < classes; ++i)
            y[row * classes + i] = (float)p[i];
    }
    return 0;
}
