/* What inline assembly of both ISAs needs. */

#ifndef GW_ASSEMBLY_H
#define GW_ASSEMBLY_H

#include "cpu/vector.h"

/* The constraint of operands in vector registers, all 32 of AVX-512 among them. */
#if VL == 16
#define VECTOR_REGISTER "v"
#else
#define VECTOR_REGISTER "x"
#endif

#endif
