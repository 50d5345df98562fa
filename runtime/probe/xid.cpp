#include "runtime/probe/xid.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace gpunode::probe {
namespace {

struct Row {
  unsigned number;
  bool condemns;
  std::string_view meaning;
  std::string_view remedy;
};

constexpr std::string_view kReset =
    "reset it with `nvidia-smi -r`, and replace it if it comes back";
constexpr std::string_view kApplication =
    "an error of a program that used it, not of the device: see that program's log";

constexpr std::array kRows = {
    // Programs that went wrong on a sound device.
    Row{13, false, "an exception in its compute engine", kApplication},
    Row{31, false, "an access to memory that is not mapped", kApplication},
    Row{32, false, "a stream of commands that it cannot read", kApplication},
    Row{43, false, "it stopped the work of a program", kApplication},
    Row{45, false, "it took a program's work away after an error before",
        "see the error before this one, or who ended the program"},
    Row{69, false, "a command that its engine does not know", kApplication},
    // Memory.
    Row{48, true, "an error of two bits in its memory, which cannot be corrected", kReset},
    Row{63, false, "a bad row of its memory is to be replaced",
        "it can go on; the row is replaced with the next reset"},
    Row{64, true, "a bad row of its memory could not be replaced", kReset},
    Row{92, false, "many errors in its memory that were corrected",
        "it can go on; have it looked at if they do not end"},
    Row{94, false, "an error in its memory that reached one program only",
        "start that program anew; the device can go on"},
    Row{95, true, "an error in its memory that may have reached every program", kReset},
    Row{140, true, "an error in its memory that it could not recover from", kReset},
    Row{156, true, "a bad part of it is to be taken out of use", kReset},
    // The device itself, and its links.
    Row{46, true, "it has stopped processing", kReset},
    Row{62, true, "its inner controller has halted", kReset},
    Row{74, true, "an error of its NVLink",
        "reset it with `nvidia-smi -r`, and look at the bridge or switch if it comes back"},
    Row{79, true, "it has fallen off the bus",
        "restart the machine; check its seat, power and cooling if it comes back"},
    Row{109, true, "it could not change from one program to another in time", kReset},
    Row{119, true, "its system processor does not answer", kReset},
    Row{120, true, "its system processor has failed", kReset},
    Row{136, true, "a link of it could not be trained", kReset},
    Row{143, true, "it could not be initialised", kReset},
    Row{158, true, "it did not end its work in time", kReset},
};

}  // namespace

std::optional<XidMeaning> meaning_of_xid(unsigned number) {
  const auto row = std::ranges::find(kRows, number, &Row::number);
  if (row == kRows.end()) return std::nullopt;
  return XidMeaning{row->condemns, "Xid " + std::to_string(number) + ", " +
                                       std::string(row->meaning) + ": " + std::string(row->remedy)};
}

}  // namespace gpunode::probe
