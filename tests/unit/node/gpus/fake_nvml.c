/* A libnvidia-ml.so.1 with two GPUs: the second one, an older one, reports little. Structures as in nvml.h. */
#include <string.h>
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned version, supported; } support_t;
typedef struct { unsigned id, result; double value; struct { char *a, *b, *c; } info; } metric_t;
typedef struct { unsigned version, count; void *before, *now; metric_t metrics[333]; } metrics_t;
static int gpus[2], taken;
static int index_of(void *device) { return (int *)device - gpus; }
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &gpus[index]; return 0; }
int nvmlDeviceGetName(void *device, char *text, unsigned size) { strncpy(text, "Fake H200", size); return 0; }
int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    strncpy(text, index_of(device) ? "GPU-bbbb-2" : "GPU-aaaa-1", size);
    return 0;
}
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = 150ULL << 30; memory->used = 100ULL << 30; memory->free = 50ULL << 30;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *use) { use->gpu = 98; use->memory = 40; return index_of(device) ? 3 : 0; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *value) { *value = 651500; return index_of(device) ? 3 : 0; }
int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *value) { static int asked; *value = index_of(device) || asked++ ? 10500 : 9000; return index_of(device) ? 3 : 0; }
int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned *value) { *value = 700000; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *value) { *value = 64; return sensor; }
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *value) { *value = 1755; return clock != 1; }
int nvmlDeviceGetMaxClockInfo(void *device, int clock, unsigned *value) { *value = 1980; return clock != 1; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *mask) { *mask = 0x1 | 0x4 | 0x20; return 0; }
int nvmlGpmQueryDeviceSupport(void *device, support_t *support) { support->supported = !index_of(device); return support->version != 1; }
int nvmlGpmSampleAlloc(void **sample) { static int samples[8]; *sample = &samples[taken++]; return 0; }
int nvmlGpmSampleGet(void *device, void *sample) { static int now; *(int *)sample = ++now; return 0; }
int nvmlGpmMetricsGet(metrics_t *get) {
    if (get->version != 1 || get->count != 2 || *(int *)get->before + 1 != *(int *)get->now) return 2;
    for (unsigned i = 0; i < get->count; i++) { get->metrics[i].result = 0; get->metrics[i].value = 10.0 * get->metrics[i].id; }
    return 0;
}
