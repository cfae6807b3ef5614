/* Programs with their kernels. */
#pragma once
#include "package.h"

/* Choose the ISA that runs: the newest that this CPU has, the kernels of which are those that are here. */
gw_status link_choose_isa(package *p);
/* Load the program of a number of `entry`, as the manifest has it. */
gw_status link_program(package *p, const json *entry, int64_t number, executable *program);
/* A member, whose hash was checked. */
gw_status link_member(package *p, const char *name, block *content);
