/* Loads programs and their kernels. */
#pragma once
#include "package.h"

/* Chooses the newest ISA that this CPU supports and whose installed kernels match those of the package. */
gw_status link_choose_isa(package *p);
/* Loads program `number` of `entry`, an entry of the manifest. */
gw_status link_program(package *p, const json *entry, int64_t number, executable *program);
/* Reads a member and checks its hash. */
gw_status link_member(package *p, const char *name, block *content);
