/* Decodes the manifest: entries, their inputs and outputs, and their trees of executables. */
#pragma once
#include "package.h"

/* Decodes an input or output: name, dtype, shape. Fails if it is malformed or of a type that the C interface
   does not support. */
gw_status decode_info(package *p, const json *plain, gw_tensor_info *info);
gw_status decode_infos(package *p, const json *list, infos *decoded);
bool same_dtypes(const infos *a, const infos *b);
/* Decodes an executable without host nodes; does not load its programs. */
gw_status decode_executable(package *p, const json *plain, executable *decoded);
/* Appends the names of the nodes that run in Python to `text`, of `size` bytes. */
void decode_host_nodes(const json *plain, char *text, size_t size);
