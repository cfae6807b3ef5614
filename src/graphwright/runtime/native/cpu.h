/* The machine: its vector ISA and how many CPUs this process may use. */
#pragma once

/* "v4", "v3" or "baseline": the best x86-64 level that the CPU and the operating system support. */
const char *gw_cpu_isa(void);

/* CPUs by affinity and cgroup quota, at least 1. */
int gw_cpu_count(void);
