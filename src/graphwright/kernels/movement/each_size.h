/* Includes the file TEMPLATE for each size of an element in bytes, which is SIZE there. */
#define SIZE 1
#include TEMPLATE
#undef SIZE
#define SIZE 2
#include TEMPLATE
#undef SIZE
#define SIZE 4
#include TEMPLATE
#undef SIZE
#define SIZE 8
#include TEMPLATE
#undef SIZE
#define SIZE 16
#include TEMPLATE
#undef SIZE
#undef TEMPLATE
