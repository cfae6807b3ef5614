/* The manifest as structs: entries, their inputs and outputs, and the tree of what runs. */
#pragma once
#include "package.h"

/* An input or output: name, dtype, shape. False for what is malformed, and for types that are no tensors of
   this interface. */
gw_status decode_info(package *p, const json *plain, gw_tensor_info *info);
gw_status decode_infos(package *p, const json *list, infos *decoded);
/* An executable without host nodes; its programs are not loaded. */
gw_status decode_executable(package *p, const json *plain, executable *decoded);
/* Adds to `text`, of `size` bytes, what of the executable runs in Python, each by name. */
void decode_host_nodes(const json *plain, char *text, size_t size);
