/* Shared by inline assembly of both ISAs. */

#ifndef GW_ASSEMBLY_H
#define GW_ASSEMBLY_H

#include "cpu/vector.h"

/* The constraint for operands in vector registers; with AVX-512, all 32 registers. */
#if VL == 16
#define VECTOR_REGISTER "v"
#else
#define VECTOR_REGISTER "x"
#endif

#endif
