// ResNet: a classifier of images made of blocks whose result is added to what went in. Two
// convolutions a block, batch normalisation after each, a ReLU; groups of blocks of which each but
// the first halves height and width and doubles the filters; the mean over all pixels decides.
// Batch normalisation takes a slice's own statistics in training, so a slice's gradient depends on
// which samples are in it and on nothing else; running ones, which are part of the state, follow
// them and are used in evaluation.
// Source: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", 2016. Names are those
// of torchvision; a convolution's weight is (O, KH, KW, C) here.
#pragma once

#include "kernels/model/classifier.hpp"

namespace gpunode::model {

// The defaults are for small images; ResNet-18 is 224x224x3, 4 groups, 64 filters, a stem of 7.
struct ResnetConfig {
  std::int64_t height = 8, width = 8;  // of an image, in pixels
  std::int64_t channels = 1;  // of a pixel; a sample's features are (height, width, channels)
  std::int64_t classes = 10;  // labels are 0 .. classes-1
  std::int64_t groups = 2;
  std::int64_t blocks = 1;    // in each group
  std::int64_t filters = 16;  // of the first group
  // Window of the first convolution: 3, or 7 in steps of two pixels with a pool behind it, which is
  // for images of some 100 pixels and more.
  std::int64_t stem = 3;
};

class Resnet final : public Classifier {
 public:
  // Fails with: invalid_argument (a stem that is neither 3 nor 7).
  static Result<std::unique_ptr<Resnet>> open(ResnetConfig config);

  std::string kind() const override { return "resnet"; }
  std::string name() const override;
  Settings config() const override;
  std::int64_t features() const override {
    return config_.height * config_.width * config_.channels;
  }
  std::size_t vocabulary() const override { return static_cast<std::size_t>(config_.classes); }
  // Convolutions N(0, sqrt(2 / (O * KH * KW))), norms 1 and 0, the scores' weights N(0, sqrt(1 / 3K)).
  void forward(graph::Builder& builder) const override;

 private:
  explicit Resnet(ResnetConfig config) : config_(config) {}
  ResnetConfig config_;
};

// Keys: the fields of ResnetConfig.
Result<std::unique_ptr<Model>> make_resnet(const Settings& settings);

}  // namespace gpunode::model
