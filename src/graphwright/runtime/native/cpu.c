#include "cpu.h"

#include <cpuid.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Bits of CPUID and XCR0: Intel SDM volume 2A (CPUID) and volume 1, chapter 13; levels: x86-64 psABI. */
enum {
    L1_ECX_V3 = 1 << 12 /* FMA */ | 1 << 22 /* MOVBE */ | 1 << 27 /* OSXSAVE */ | 1 << 28 /* AVX */ |
        1 << 29 /* F16C */,
    L7_EBX_V3 = 1 << 3 /* BMI1 */ | 1 << 5 /* AVX2 */ | 1 << 8 /* BMI2 */,
    X1_ECX_V3 = 1 << 5 /* LZCNT */,
    XCR0_YMM = 0x6,
    XCR0_ZMM = 0xe6
};
static const uint32_t L7_EBX_V4 =
    1u << 16 /* F */ | 1u << 17 /* DQ */ | 1u << 28 /* CD */ | 1u << 30 /* BW */ | 1u << 31 /* VL */;

static bool has(uint32_t word, uint32_t bits) { return (word & bits) == bits; }

static uint64_t enabled_states(void) {
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

const char *gw_cpu_isa(void) {
    uint32_t a, b, c, d, leaf7, extended;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has(c, L1_ECX_V3) || !has((uint32_t)enabled_states(), XCR0_YMM))
        return "baseline";
    if (!__get_cpuid_count(7, 0, &a, &leaf7, &c, &d) || !has(leaf7, L7_EBX_V3))
        return "baseline";
    if (!__get_cpuid(0x80000001, &a, &b, &extended, &d) || !has(extended, X1_ECX_V3))
        return "baseline";
    return has(leaf7, L7_EBX_V4) && has((uint32_t)enabled_states(), XCR0_ZMM) ? "v4" : "v3";
}

static int affinity_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); /* more than a cpu_set_t holds */
}

/* ceil(quota / period), or 0 for no limit. */
static int quota_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    long long cpus = (quota + period - 1) / period;
    return cpus > 1 << 20 ? 0 : (int)cpus;
}

static int cpu_max(const char *folder) { /* cgroup v2: "max 100000" or "150000 100000" */
    char path[640];
    long long quota, period;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int found = fscanf(file, "%lld %lld", &quota, &period);
    fclose(file);
    return found == 2 ? quota_cpus(quota, period) : 0;
}

static long long number_in(const char *path) {
    long long number = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lld", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

static int tighter(int a, int b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The tightest limit from this process's cgroup up to the root; 0 for none. */
static int cgroup_count(void) {
    char folder[512] = "/sys/fs/cgroup", line[480];
    size_t root = strlen(folder);
    int limit = 0;
    FILE *file = fopen("/proc/self/cgroup", "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "0::", 3) == 0) {
            line[strcspn(line, "\n")] = 0;
            snprintf(folder + root, sizeof folder - root, "%s", line + 3);
        }
    if (file)
        fclose(file);
    for (;;) {
        limit = tighter(limit, cpu_max(folder));
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= root || !slash)
            break;
        *slash = 0;
    }
    long long quota = number_in("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"); /* cgroup v1 */
    return tighter(limit, quota_cpus(quota, number_in("/sys/fs/cgroup/cpu/cpu.cfs_period_us")));
}

int gw_cpu_count(void) {
    int count = tighter(affinity_count(), cgroup_count());
    return count < 1 ? 1 : count;
}
