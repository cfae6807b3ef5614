/* The machine: its vector ISA and how many CPUs this process may use. */
#pragma once

/* "v4", "v3" or "baseline": the best x86-64 level that the CPU and the operating system support. */
const char *gw_cpu_isa(void);

/* Whether a "v4" CPU has AVX512-BF16: CPUID leaf 7, subleaf 1, EAX bit 5. */
int gw_cpu_has_bf16(void);

/* Whether AVX512-BF16 multiplies faster than f32 FMAs. On Intel's CPUs, an instruction takes as long as four
 * FMAs. */
int gw_cpu_has_fast_bf16(void);

/* The number of CPUs that this process may use, by affinity and cgroup quota, at least 1. */
int gw_cpu_count(void);

/* The number of CPUs, rounded up, that the cgroups listed in the file `membership` allow; 0 without a limit.
   The hierarchies of cgroups v1 and v2 are under `mount`. */
int gw_cgroup_cpus(const char *mount, const char *membership);
