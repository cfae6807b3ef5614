/* The machine: its vector ISA and how many CPUs this process may use. */
#pragma once

/* "v4", "v3" or "baseline": the best x86-64 level that the CPU and the operating system support. */
const char *gw_cpu_isa(void);

/* CPUs by affinity and cgroup quota, at least 1. */
int gw_cpu_count(void);

/* CPUs that the cgroups named in the file `membership` may use at once, rounded up; 0 without a limit. Both
   versions' hierarchies are under `mount`. */
int gw_cgroup_cpus(const char *mount, const char *membership);
