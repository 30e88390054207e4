// What tests ask of the emulated library, by ctypes.
#include "cuda_emulation.h"

#define SDROP_EXPORT extern "C" __attribute__((visibility("default")))

// See order.h.
SDROP_EXPORT void sdrop_set_thread_order(unsigned order) {
  sdrop::emulation::thread_order = order;
}

// Another device to plan for: `attribute` is the place in cudaDeviceAttr of runtime.h.
SDROP_EXPORT void sdrop_set_device_attribute(int attribute, int value) {
  sdrop::emulation::device_attributes[static_cast<cudaDeviceAttr>(attribute)] = value;
}
