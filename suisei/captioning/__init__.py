"""Models that write captions of images, to be trained and to be measured."""
