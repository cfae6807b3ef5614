#include "dtype.h"

#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} DTYPES[] = {
    [GW_DTYPE_BOOL] = {"bool", 1},
    [GW_DTYPE_I8] = {"i8", 1},
    [GW_DTYPE_I16] = {"i16", 2},
    [GW_DTYPE_I32] = {"i32", 4},
    [GW_DTYPE_I64] = {"i64", 8},
    [GW_DTYPE_U8] = {"u8", 1},
    [GW_DTYPE_U16] = {"u16", 2},
    [GW_DTYPE_U32] = {"u32", 4},
    [GW_DTYPE_U64] = {"u64", 8},
    [GW_DTYPE_F16] = {"f16", 2},
    [GW_DTYPE_BF16] = {"bf16", 2},
    [GW_DTYPE_F32] = {"f32", 4},
    [GW_DTYPE_F64] = {"f64", 8},
    [GW_DTYPE_C64] = {"c64", 8},
    [GW_DTYPE_C128] = {"c128", 16},
    [GW_DTYPE_I4] = {"i4", 1},
    [GW_DTYPE_U4] = {"u4", 1},
    [GW_DTYPE_I2] = {"i2", 1},
    [GW_DTYPE_U2] = {"u2", 1},
    [GW_DTYPE_F8E4M3FN] = {"f8e4m3fn", 1},
    [GW_DTYPE_F8E4M3FNUZ] = {"f8e4m3fnuz", 1},
    [GW_DTYPE_F8E5M2] = {"f8e5m2", 1},
    [GW_DTYPE_F8E5M2FNUZ] = {"f8e5m2fnuz", 1},
    [GW_DTYPE_F8E8M0] = {"f8e8m0", 1},
    [GW_DTYPE_F4E2M1] = {"f4e2m1", 1},
    [GW_DTYPE_F6E2M3] = {"f6e2m3", 1},
    [GW_DTYPE_F6E3M2] = {"f6e3m2", 1},
};
enum { COUNT = sizeof DTYPES / sizeof *DTYPES };

bool dtype_named(const char *name, gw_dtype *dtype) {
    for (int i = 0; i < COUNT; i++)
        if (strcmp(DTYPES[i].name, name) == 0) {
            *dtype = (gw_dtype)i;
            return true;
        }
    return false;
}

const char *gw_dtype_name(gw_dtype dtype) { return (unsigned)dtype < COUNT ? DTYPES[dtype].name : NULL; }

size_t gw_dtype_bytes(gw_dtype dtype) { return (unsigned)dtype < COUNT ? DTYPES[dtype].bytes : 0; }
