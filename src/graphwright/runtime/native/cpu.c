#include "cpu.h"

#include <cpuid.h>
#include <limits.h>
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

int gw_cpu_has_bf16(void) {
    uint32_t a, b, c, d;
    return strcmp(gw_cpu_isa(), "v4") == 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
}

int gw_cpu_has_fast_bf16(void) {
    uint32_t a, b, c, d;
    return gw_cpu_has_bf16() && __get_cpuid(0, &a, &b, &c, &d) && c != signature_INTEL_ecx;
}

static int affinity_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    return (int)sysconf(_SC_NPROCESSORS_ONLN); /* there are more CPUs than a cpu_set_t can hold */
}

enum { MOST_CPUS = 1 << 20 }; /* a quota of more is no limit */

/* ceil(quota / period), or 0 for no limit. */
static int quota_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0)
        return 0;
    long long cpus = (quota + period - 1) / period;
    return cpus > MOST_CPUS ? 0 : (int)cpus;
}

/* Reads up to two numbers at the beginning of `folder`/`name`; returns how many there are. */
static int read_numbers(const char *folder, const char *name, long long *first, long long *second) {
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int count = fscanf(file, "%lld %lld", first, second);
    fclose(file);
    return count;
}

static int v2_cpus(const char *folder) { /* "max 100000" or "150000 100000" */
    long long quota, period;
    return read_numbers(folder, "cpu.max", &quota, &period) == 2 ? quota_cpus(quota, period) : 0;
}

static int v1_cpus(const char *folder) { /* -1: no limit */
    long long quota, period, unused;
    bool found = read_numbers(folder, "cpu.cfs_quota_us", &quota, &unused) >= 1 &&
                 read_numbers(folder, "cpu.cfs_period_us", &period, &unused) >= 1;
    return found ? quota_cpus(quota, period) : 0;
}

static int tighter(int a, int b) { return a == 0 || (b != 0 && b < a) ? b : a; }

/* The tightest limit from `mount`/`group` up to `mount`. A group that is not mounted here has no files. */
static int group_cpus(const char *mount, const char *group, int (*cpus_of)(const char *folder)) {
    char folder[PATH_MAX];
    int limit = 0;
    if (snprintf(folder, sizeof folder, "%s%s", mount, group) >= (int)sizeof folder)
        return 0;
    for (;;) {
        limit = tighter(limit, cpus_of(folder));
        char *slash = strrchr(folder, '/');
        if (strlen(folder) <= strlen(mount) || !slash)
            return limit;
        *slash = 0;
    }
}

static bool lists(char *controllers, const char *wanted) {
    for (char *rest, *name = strtok_r(controllers, ",", &rest); name; name = strtok_r(NULL, ",", &rest))
        if (strcmp(name, wanted) == 0)
            return true;
    return false;
}

int gw_cgroup_cpus(const char *mount, const char *membership) {
    char line[PATH_MAX], cpu_mount[PATH_MAX / 2];
    int limit = 0;
    FILE *file = fopen(membership, "re");
    if (!file)
        return 0;
    snprintf(cpu_mount, sizeof cpu_mount, "%s/cpu", mount);
    while (fgets(line, sizeof line, file)) { /* "0::/group" in v2, "1:cpu,cpuacct:/group" in v1 */
        line[strcspn(line, "\n")] = 0;
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *controllers++ = 0, *group++ = 0;
        if (*controllers == 0)
            limit = tighter(limit, group_cpus(mount, group, v2_cpus));
        else if (lists(controllers, "cpu"))
            limit = tighter(limit, group_cpus(cpu_mount, group, v1_cpus));
    }
    fclose(file);
    return limit;
}

int gw_cpu_count(void) {
    int count = tighter(affinity_count(), gw_cgroup_cpus("/sys/fs/cgroup", "/proc/self/cgroup"));
    return count < 1 ? 1 : count;
}
