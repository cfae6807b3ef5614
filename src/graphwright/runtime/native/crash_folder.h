/* The folder that a crash writes: the model, the inputs of the run, a report, and a script that repeats the
   run. All texts are made before the run; a signal handler only writes them. */
#pragma once
#include "crash_text.h"

/* A file of the folder: `head`, then `data`. */
typedef struct {
    const char *name;
    const void *head, *data;
    int64_t head_bytes, data_bytes;
} gw_crash_file;

/* `folder`, an absolute path, contains the folders of all crashes; the script is one of the files. */
typedef struct {
    const char *folder;
    const char *model;  /* the package, by its path in `folder` */
    const char *advice; /* the end of the report: what to do */
    const gw_crash_file *files;
    int64_t file_count;
} gw_crash_run;

/* Makes a new folder in run->folder, complete or not at all, with the output of `report`, and writes its
   path, or the reason why there is none, to `console`. Not thread-safe. */
void gw_write_crash_folder(const gw_crash_run *run, void (*report)(gw_crash_text *to, const void *data),
                           const void *data, gw_crash_text *console);
