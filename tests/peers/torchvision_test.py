"""ResNets of torchvision with random weights against ours: a state_dict is read by us, the scores of
evaluation, the gradients of training and the statistics that it measures are the same, and what we
write is a state_dict again. timm, whose tensors have the same names, reads our folders and we its.
Tolerances: peer.py. About 20 s, most of it imports and files.
usage: torchvision_test.py PEER_PROBE [TEST...]
"""
import copy
import json

import peer
import timm
import timm.models
import torch
import torchvision
from safetensors.torch import load_file, save_file
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

MOMENTUM = 0.1  # of torch.nn.BatchNorm2d


def tiny(blocks, filters, channels, classes):
    """torchvision's own code with fewer filters and the first window that small images want."""
    model = ResNet(BasicBlock, [blocks] * 4, num_classes=classes)
    model.conv1 = torch.nn.Conv2d(channels, filters, 3, padding=1, bias=False)
    model.bn1, model.maxpool = torch.nn.BatchNorm2d(filters), torch.nn.Identity()
    model.inplanes = filters
    model.layer1 = model._make_layer(BasicBlock, filters, blocks)
    model.layer2 = model._make_layer(BasicBlock, 2 * filters, blocks, stride=2)
    model.layer3, model.layer4 = torch.nn.Sequential(), torch.nn.Sequential()
    model.fc = torch.nn.Linear(2 * filters, classes)
    return model


def randomised(model):
    """Statistics and norms as after some training."""
    generator = torch.Generator().manual_seed(5)
    model = peer.randomised(model)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.copy_(0.2 * torch.randn(buffer.shape, generator=generator))
        elif name.endswith("running_var"):
            buffer.copy_(0.5 + torch.rand(buffer.shape, generator=generator))
        else:
            buffer.fill_(7)
    return model


def one_sided(model):
    """Each channel on one side of its ReLU. A value within rounding of 0 has no gradient to speak of,
    as it may fall on either side; among the millions of a ResNet-18 there is always one."""
    for name, parameter in model.named_parameters():
        if name.endswith(("bn1.bias", "bn2.bias")):
            on = torch.ones_like(parameter)
            if name.endswith("bn1.bias"):
                on[1::3] = -1
            parameter.data += 8 * on
    return model


def margin(model, images):
    """How far from 0 the inputs of all ReLUs stay in training."""
    nearest = []
    copied = copy.deepcopy(model).train()
    for module in copied.modules():
        if isinstance(module, torch.nn.ReLU):
            module.register_forward_pre_hook(
                lambda _, values: nearest.append(values[0].detach().abs().min().item()))
    copied(images)
    return min(nearest)


class Torchvision(peer.Peer):
    def samples(self, model, count, height, width, seed=3):
        """Images (count, C, H, W) and labels as torch has them, and the raw samples of ours."""
        generator = torch.Generator().manual_seed(seed)
        images = torch.randn((count, model.conv1.in_channels, height, width), generator=generator)
        labels = torch.randint(model.fc.out_features, (count,), generator=generator)
        raw = b"".join(image.permute(1, 2, 0).contiguous().numpy().tobytes() +
                       label.to(torch.int32).numpy().tobytes()
                       for image, label in zip(images, labels))
        return images, labels, raw

    def expect_statistics(self, model, before, ours, count):
        """What ours has measured, a sum over the samples, is what moved theirs."""
        for name, after in model.named_buffers():
            if not name.endswith("num_batches_tracked"):
                measured = (after - (1 - MOMENTUM) * before[name]) / MOMENTUM
                with self.subTest(statistics=name):
                    self.assertLess(peer.relative(ours[name] / count, measured), peer.GRADIENTS)

    def expect_read_back(self, model, images, scores):
        exported = self.folder / "export"
        again = copy.deepcopy(model)
        for tensor in [*again.parameters(), *again.buffers()]:
            tensor.detach().zero_()
        again.load_state_dict(load_file(exported / "model.safetensors"), strict=True)
        self.assertTrue(torch.equal(again.eval()(images), scores))
        config = json.loads((exported / "config.json").read_text())
        self.assertEqual(config["pretrained_cfg"]["input_size"], list(images.shape[1:]))
        self.assertEqual(config["num_classes"], scores.shape[1])

    def expect_the_same(self, model, path, samples):
        images, labels, raw = samples
        scores, loss, gradients = self.asked(path, raw)
        theirs = model(images).detach()
        self.assertLess(peer.relative(scores.view(theirs.shape), theirs), peer.SCORES)
        self.expect_read_back(model, images, theirs)

        before = {name: buffer.clone() for name, buffer in model.named_buffers()}
        reference = torch.nn.functional.cross_entropy(model.train()(images), labels,
                                                      reduction="sum")
        self.assertLess(abs(loss / reference.item() - 1), peer.SCORES)
        reference.backward()
        self.expect_gradients(model, gradients)
        self.expect_statistics(model, before, gradients, len(labels))

    def folder_of(self, model, height, width):
        """As timm's models lie on the hub."""
        folder = self.folder / "theirs"
        folder.mkdir()
        save_file(model.state_dict(), folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({
            "architecture": "resnet18", "num_classes": model.fc.out_features,
            "pretrained_cfg": {"input_size": [model.conv1.in_channels, height, width]}}))
        return folder

    def test_resnet_18_is_ours_by_its_tensors_alone(self):
        model = one_sided(randomised(ResNet(BasicBlock, [2, 2, 2, 2], num_classes=5)))
        path = self.folder / "resnet18.safetensors"
        save_file(model.state_dict(), path)
        self.expect_the_same(model, path, self.samples(model, 3, 224, 224))

    def test_resnet_18_on_small_images_that_are_no_squares(self):
        model = one_sided(randomised(torchvision.models.resnet18(num_classes=11)))
        self.expect_the_same(model, self.folder_of(model, 72, 45), self.samples(model, 8, 72, 45))

    def test_a_small_one_for_small_images(self):
        model = randomised(tiny(blocks=2, filters=6, channels=1, classes=10))
        drawn = (self.samples(model, 6, 9, 8, seed) for seed in range(50))
        samples = next(one for one in drawn if margin(model, one[0]) > 2e-5)
        self.expect_the_same(model, self.folder_of(model, 9, 8), samples)

    def test_timm_reads_our_folder_and_we_read_its(self):
        model = one_sided(randomised(timm.create_model("resnet18", num_classes=6)))
        folder = self.folder / "timm"
        timm.models.save_for_hf(model, folder, safe_serialization=True)
        images, _, raw = self.samples(model, 1, 224, 224)
        scores = self.asked(folder, raw)[0]
        theirs = model(images).detach()
        self.assertLess(peer.relative(scores, theirs.flatten()), peer.SCORES)
        again = timm.create_model(f"local-dir:{self.folder / 'export'}", pretrained=True).eval()
        self.assertTrue(torch.equal(again(images), theirs))

    def test_other_resnets_are_refused_by_what_they_have(self):
        for model, words in ((ResNet(Bottleneck, [1, 1, 1, 1]), "three convolutions"),
                             (ResNet(BasicBlock, [1, 2, 1, 1]), "layer2 has 2 blocks and layer1 1")):
            path = self.folder / "other.safetensors"
            save_file(model.state_dict(), path)
            told = self.refusal(path)
            self.assertIn(words, told)
            self.assertIn(str(path), told)


if __name__ == "__main__":
    peer.main(torchvision, timm)
