"""Video files for tests; whoever imports this needs the extra video."""

import numpy as np
import pytest

av = pytest.importorskip("av", reason="needs the extra video")


def encode_video(path, frames, codec, rate, size=(32, 32), options=None, silence=0):
    """Write frames of PyAV, and beside them so many seconds of silence; nothing in the file is random."""
    with av.open(str(path), "w", options={"fflags": "+bitexact"}) as container:
        try:
            stream = container.add_stream(codec, rate=rate, options=options)
        except av.codec.codec.UnknownCodecError:
            pytest.skip(f"FFmpeg here has no {codec}")
        stream.width, stream.height = size
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        sound = container.add_stream("aac", rate=8000, layout="mono") if silence else None
        for frame in frames:
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
        if sound is not None:
            quiet = np.zeros((1, silence * sound.rate), dtype=np.float32)
            heard = av.AudioFrame.from_ndarray(quiet, format="fltp", layout="mono")
            heard.sample_rate = sound.rate
            container.mux([*sound.encode(heard), *sound.encode()])
    return path


def cut_video(source, path, packets=0, options=None):
    """Copy a video without its first packets, decoding nothing."""
    with (
        av.open(str(source)) as whole,
        av.open(str(path), "w", options={"fflags": "+bitexact", **(options or {})}) as container,
    ):
        given = whole.streams.video[0]
        stream = container.add_stream_from_template(given)
        for packet in [packet for packet in whole.demux(given) if packet.size][packets:]:
            packet.stream = stream
            container.mux(packet)
    return path
