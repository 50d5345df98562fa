#include "runtime/base/pci_bus_id.hpp"

#include <gtest/gtest.h>

namespace gpunode {
namespace {

TEST(PciBusId, has_one_form_for_what_cuda_nvml_and_lspci_say) {
  for (const char* text : {"0000:0A:00.0", "00000000:0a:00.0", "0A:00.0", "0a:00", "0000:0a:00"})
    EXPECT_EQ(normal_pci_bus_id(text), "00000000:0a:00.0") << text;
  EXPECT_EQ(normal_pci_bus_id("00010000:C1:1f.7"), "00010000:c1:1f.7");
  EXPECT_NE(normal_pci_bus_id("0001:01:00.0"), normal_pci_bus_id("0000:01:00.0"));
}

TEST(PciBusId, is_none_where_the_text_names_no_place) {
  for (const char* text :
       {"", "0", ":", "a:", ":0", "0000:0a:20.0", "100:00.0", "0a:00.8", "0a:00.", "0x0:0a:00.0",
        "0a:00.0 ", "-1:00.0", "1:0:0a:00.0", "100000000:0a:00.0", "GPU-1234"})
    EXPECT_EQ(normal_pci_bus_id(text), std::nullopt) << text;
}

}  // namespace
}  // namespace gpunode
