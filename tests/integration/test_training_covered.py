"""Every option of `suisei train` and of PAC-S training has a test that fails where it is ignored."""

import ast
import dataclasses
import inspect
import typing
from collections import Counter
from pathlib import Path

from suisei.training.module import SuiSei

COVERED = {
    "test_model_without_image_and_frozen_text_encoder": ("model.text.name", "model.text.frozen"),
    "test_layers_of_the_text_encoder": ("model.text.layers",),
    "test_layers_below_the_trained_ones_keep_their_weights": ("model.text.trained_layers",),
    "test_a_score_may_start_from_the_cosine": ("model.head.start",),
    "test_a_bridge_between_languages_is_not_trained": ("model.head.bridge",),
    "test_the_loss_of_a_step_has_what_is_asked_for": (
        "model.loss.cosine_weight",
        "model.loss.pair_weight",
        "model.loss.support_weight",
    ),
    "test_checkpointing_computes_layers_twice": ("model.text.checkpointing",),
    "test_sizes_of_the_encoders": (
        "model.text.tiny.vocabulary",
        "model.text.tiny.width",
        "model.text.tiny.layers",
        "model.image.tiny.width",
        "model.image.tiny.image_size",
        "model.image.tiny.features",
    ),
    "test_local_checkpoint_is_read_and_the_architecture_comes_back": (
        "model.image.name",
        "model.image.pretrained",
    ),
    "test_frozen_encoder_never_moves": ("model.image.frozen",),
    "test_normalised_features_have_unit_length": ("model.image.normalise",),
    "test_pooled_vectors_and_their_tokens": ("model.fusion.poolings", "model.fusion.layer_norm"),
    "test_width_of_the_fused_features": ("model.fusion.references", "model.fusion.blocks"),
    "test_further_inputs_and_how_many_there_are": (
        "model.fusion.similarity",
        "model.fusion.image_similarity",
        "model.fusion.alignment",
        "model.fusion.extra_inputs",
    ),
    "test_captions_may_be_read_as_if_plainly_written": ("model.fusion.plain_writing",),
    "test_head_of_the_model": (
        "model.head.hidden",
        "model.head.activation",
        "model.head.extra_hidden",
        "model.head.members",
        "model.head.rank_share",
    ),
    "test_each_dropout_drops_its_own_part_in_training_alone": (
        "model.head.dropout",
        "model.head.input_dropout",
        "model.head.extra_dropout",
    ),
    "test_rates_decay_and_optimizer": (
        "model.optimizer.name",
        "model.optimizer.head_lr",
        "model.optimizer.encoder_lr",
        "model.optimizer.image_lr",
        "model.optimizer.extra_lr",
        "model.optimizer.layerwise_decay",
        "model.optimizer.weight_decay",
    ),
    "test_part_of_the_first_epoch_with_a_frozen_text_encoder": ("model.optimizer.frozen_fraction",),
    "test_rates_of_a_run_follow_the_schedule": (
        "model.optimizer.schedule",
        "model.optimizer.warmup_fraction",
    ),
    "test_all_references_of_a_sample_are_dropped_together_and_the_image_by_itself": (
        "model.reference_dropout",
        "model.image_dropout",
    ),
    "test_captions_of_one_image_come_together": ("model.pretraining.epochs",),
    "test_steps_of_an_epoch_and_their_rates": (
        "model.pretraining.batch_size",
        "model.pretraining.learning_rate",
    ),
    "test_share_of_the_words_that_are_dropped": ("model.pretraining.word_dropout",),
    "test_images_learn_what_their_captions_say": ("model.pretraining.image_epochs",),
    "test_the_head_learns_from_encoders_that_have_not_seen_the_image": ("model.pretraining.cross_fit",),
    "test_data_of_a_run": (
        "data.train",
        "data.images",
        "data.rating_scale",
        "data.fractions",
        "data.batch_size",
    ),
    "test_given_validation_and_test_files_are_used_whole": ("data.validation", "data.test"),
    "test_the_data_module_keeps_test_captions_out_of_the_support": ("data.support",),
    "test_made_samples_are_trained_on_and_counted": ("data.synthetic",),
    "test_a_benchmark_is_read_from_its_own_folder": ("data.root",),
    "test_every_group_is_tested_in_exactly_one_fold": ("data.folds", "data.fold"),
    "test_split_depends_on_its_seed_alone": ("data.split_seed",),
    "test_crossed_folds_of_the_data_module_part_candidates_and_images": ("data.disjoint",),
    "test_a_balanced_step_takes_whole_images_of_every_set_and_rated_pairs": ("data.batching",),
    "test_training_samples_go_through_the_references_of_their_image": ("data.references",),
    "test_batches_are_made_by_as_many_processes": ("data.num_workers",),
    "test_bad_rows_are_raised_or_counted": ("data.on_error",),
    "test_a_run_writes_a_model_that_scores": (
        "pacs.model.model",
        "pacs.model.trainable",
        "pacs.data.validation",
    ),
    "test_low_rank_updates_have_the_rank_and_scale_asked_for": ("pacs.model.rank", "pacs.model.alpha"),
    "test_published_weights_are_asked_for_by_their_tag": ("pacs.model.pretrained",),
    "test_weights_to_start_from": ("pacs.model.checkpoint", "pacs.model.architecture.embed_dim"),
    "test_one_entry_of_the_architecture_is_overridden_on_the_command_line": (
        "pacs.model.architecture.vision_cfg",
    ),
    "test_a_text_encoder_becomes_the_text_tower": (
        "pacs.model.architecture.text_cfg",
        "pacs.model.text_encoder",
    ),
    "test_weights_of_timm_fill_the_image_tower": ("pacs.model.image_weights",),
    "test_generated_positives_weigh_as_much_as_asked": ("pacs.model.lambda_v", "pacs.model.lambda_t"),
    "test_rates_of_a_run_follow_warm_up_and_cosine": (
        "pacs.model.learning_rate",
        "pacs.model.weight_decay",
        "pacs.model.warmup_steps",
        "pacs.model.cosine_steps",
    ),
    "test_augmentation_crops_as_much_as_it_may": ("pacs.model.augment", "pacs.model.smallest_crop"),
    "test_jitter_changes_training_images_alone": ("pacs.model.jitter",),
    "test_batches_hold_each_image_once_and_any_of_its_captions": (
        "pacs.data.train",
        "pacs.data.batch_size",
        "pacs.data.hold_out",
    ),
    "test_images_of_a_file_may_lie_elsewhere": ("pacs.data.root",),
    "test_a_damaged_image_stops_a_run_or_is_left_out": ("pacs.data.on_error",),
    "test_several_captions_of_an_image_are_drawn_without_repetition_while_there_are_some": (
        "pacs.data.captions_per_image",
    ),
}
"""The options whose being ignored makes a test fail, by the name of the test."""


def options_of(kind, prefix):
    """The names of all settings of a class, those of its parts included."""
    found = []
    hints = typing.get_type_hints(kind.__init__)
    for name in list(inspect.signature(kind).parameters):
        parts = [t for t in (hints[name], *typing.get_args(hints[name])) if dataclasses.is_dataclass(t)]
        found += [part for t in parts for part in options_of(t, f"{prefix}{name}.")] or [prefix + name]
    return found


def test_every_option_has_a_test_and_there_are_not_too_many():
    from suisei.pacs.dual_module import PacTraining
    from suisei.pacs.pair_datamodule import PairDataModule
    from suisei.training.datamodule import CaptionDataModule

    owners = {"model.": SuiSei, "data.": CaptionDataModule}
    owners |= {"pacs.model.": PacTraining, "pacs.data.": PairDataModule}
    options = [option for prefix, kind in owners.items() for option in options_of(kind, prefix)]
    assert sorted(options) == sorted(option for covered in COVERED.values() for option in covered)
    assert len(options) <= 100
    defined = Counter(
        node.name
        for path in Path(__file__).parents[1].rglob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    )
    assert {name: defined[name] for name in COVERED if defined[name] != 1} == {}
