/* Coordinates of type T. Included by taps.h, for float and double. */

#define OF(name) GW_JOIN(name, T)

/* Maps output index o to a coordinate on the input axis. */
static T OF(coordinate)(const sampling *t, const axis *a, int64_t o) {
    T scale = (T)a->scale, half = (T)0.5, at = (T)o;
    switch (t->coordinates) {
    case PYTORCH_HALF_PIXEL: return a->out > 1 ? (at + half) / scale - half : 0;
    case ALIGN_CORNERS: return a->out > 1 ? at * (T)(a->in - 1) / (T)(a->out - 1) : 0;
    case ASYMMETRIC: return at / scale;
    case HALF_PIXEL_SYMMETRIC: { /* centers the part of the input that the output covers */
        T covered = (T)a->out / (scale * (T)a->in);
        return (T)a->in * half * (1 - covered) + (at + half) / scale - half;
    }
    default: return (at + half) / scale - half;
    }
}

#undef OF
