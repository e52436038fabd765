"""What tiny dual encoders are made of, and one with random weights in a folder."""

from suisei.encoders.dual_folder import new_dual_encoder, save_dual_encoder

VIT = {"image_size": 32, "layers": 1, "width": 32, "patch_size": 16, "head_width": 16}
RESNET = {"layers": [1, 1, 1, 1], "width": 8, "image_size": 32, "head_width": 16}
TEXT = {"context_length": 20, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 1}


def write_clip(folder, vision=VIT, *, context=TEXT["context_length"], seed=0):
    """Write a dual encoder of such an image tower, that reads so many tokens, and return its folder."""
    text = {**TEXT, "context_length": context}
    save_dual_encoder(
        new_dual_encoder({"embed_dim": 16, "vision_cfg": vision, "text_cfg": text}, seed=seed), folder
    )
    return folder
