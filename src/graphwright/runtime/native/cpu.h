/* The machine: its vector ISA and how many CPUs this process may use. */
#pragma once

/* "v4", "v3" or "baseline": the best x86-64 level that the CPU and the operating system support. */
const char *gw_cpu_isa(void);

/* Whether a "v4" CPU multiplies bf16 by instructions (AVX512-BF16): CPUID leaf 7, subleaf 1, EAX bit 5. */
int gw_cpu_has_bf16(void);

/* CPUs by affinity and cgroup quota, at least 1. */
int gw_cpu_count(void);

/* CPUs that the cgroups named in the file `membership` may use at once, rounded up; 0 without a limit. Both
   versions' hierarchies are under `mount`. */
int gw_cgroup_cpus(const char *mount, const char *membership);
