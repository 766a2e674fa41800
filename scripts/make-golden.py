#!/usr/bin/env python3
"""Makes tests/golden: pictures and what OpenCV and SciPy make of them in float64.

    python3 -m venv VENV
    VENV/bin/pip install numpy scipy opencv-python-headless
    VENV/bin/python scripts/make-golden.py

Writes cases.txt, one line a picture or case, and data.bin, the arrays that it points into:
pictures as the bytes of a frame without padding, results as little-endian float32 in code
values, neither rounded nor clamped, component by component.

Every linear result is computed twice, by OpenCV and by SciPy, and the script stops if they
differ. OpenCV's bilateral filter works on float32 with an interpolated exponential; its results
are stored as they are, with the tolerance that this needs, and those that OpenCV cannot compute
come from the formula, in NumPy.
"""

import math
import pathlib
import sys

import cv2
import numpy as np
import scipy
from scipy import ndimage

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"

# float32 storage of values up to 65535 times the largest kernel sums.
EXACT = "1e-6"

BORDERS = {
    "replicate": (cv2.BORDER_REPLICATE, "nearest"),
    "reflect": (cv2.BORDER_REFLECT, "reflect"),
    "reflect101": (cv2.BORDER_REFLECT_101, "mirror"),
    "wrap": (cv2.BORDER_WRAP, "grid-wrap"),
    "constant": (cv2.BORDER_CONSTANT, "constant"),
}

SOBEL_X = np.outer([1, 2, 1], [-1, 0, 1]).astype(float)
SCHARR_X = np.outer([3, 10, 3], [-1, 0, 1]).astype(float)
PREWITT_X = np.outer([1, 1, 1], [-1, 0, 1]).astype(float)
LAPLACIAN = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], float)
EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]], float)


class Writer:
    def __init__(self):
        self.data = bytearray()
        versions = (
            f"OpenCV {cv2.__version__}, SciPy {scipy.__version__}, NumPy {np.__version__}"
        )
        self.lines = [
            f"# Made by scripts/make-golden.py with {versions}.",
            "# picture NAME FORMAT WIDTHxHEIGHT OFFSET",
            "# case PICTURE MAKER TOLERANCE OFFSET PROPERTY=VALUE...",
            "#   TOLERANCE in code values per unit of the largest magnitude of the result, or of 1",
        ]
        self.pictures = {}

    def picture(self, name, pixel_format, *planes):
        """Each of `planes`: rows, columns and, for several components, components."""
        height, width = planes[0].shape[:2]
        self.lines.append(f"picture {name} {pixel_format} {width}x{height} {len(self.data)}")
        for plane in planes:
            self.data += plane.tobytes()
        planes = [plane.astype(np.float64) for plane in planes]
        self.pictures[name] = planes[0] if len(planes) == 1 else planes

    def case(self, picture, maker, result, tolerance=EXACT, **properties):
        values = " ".join(f"{k.replace('_', '-')}={v}" for k, v in properties.items())
        self.lines.append(f"case {picture} {maker} {tolerance} {len(self.data)} {values}")
        many = isinstance(result, list)
        inputs = self.pictures[picture] if many else [self.pictures[picture]]
        for image, plane in zip(inputs, result if many else [result], strict=True):
            assert np.all(np.isfinite(plane)), (picture, properties)
            assert image.shape == plane.shape
            components = plane if plane.ndim == 2 else np.moveaxis(plane, 2, 0)
            self.data += components.astype("<f4").tobytes()

    def save(self):
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "cases.txt").write_text("\n".join(self.lines) + "\n")
        (FOLDER / "data.bin").write_bytes(bytes(self.data))
        print(f"{len(self.lines)} lines, {len(self.data)} bytes of data")


def extend(image, radius, border, value):
    """`image` with `radius` = (x, y) more pixels on each side."""
    x, y = radius
    kind = BORDERS[border][0]
    return cv2.copyMakeBorder(image, y, y, x, x, kind, value=[value] * 4)


def correlate(image, kernel, border, value=0.0):
    """Correlation in float64, by OpenCV and by SciPy."""
    radius = kernel.shape[1] // 2, kernel.shape[0] // 2
    extended = extend(image, radius, border, value)
    by_opencv = cv2.filter2D(extended, cv2.CV_64F, kernel)
    by_opencv = by_opencv[
        radius[1] : radius[1] + image.shape[0], radius[0] : radius[0] + image.shape[1]
    ]
    mode = BORDERS[border][1]
    planes = [image] if image.ndim == 2 else np.moveaxis(image, 2, 0)
    by_scipy = [ndimage.correlate(p, kernel, mode=mode, cval=value) for p in planes]
    by_scipy = by_scipy[0] if image.ndim == 2 else np.stack(by_scipy, axis=2)
    agree(by_opencv, by_scipy, 1e-12)
    return by_opencv


def agree(a, b, tolerance):
    bound = tolerance * max(1.0, float(np.abs(b).max()))
    worst = float(np.abs(a - b).max())
    assert worst <= bound, f"{worst} is more than {bound}"


def opencv_gauss(image, radius, sigma, border):
    """OpenCV's own GaussianBlur, where it knows the border."""
    size = (2 * radius + 1, 2 * radius + 1)
    return cv2.GaussianBlur(image, size, sigma, borderType=BORDERS[border][0])


def gauss_kernel(radius, sigma, subsampling=(1, 1)):
    """Sigma and radius in luma pixels, on a grid with a sample every `subsampling` of them."""
    axes = [
        cv2.getGaussianKernel(2 * math.ceil(radius / s) + 1, sigma / s, cv2.CV_64F)
        for s in subsampling
    ]
    return axes[1] @ axes[0].T


def bilateral(
    image, radius, sigma_space, sigma_color, border, window, distance, subsampling=(1, 1),
    guides=None,
):
    """The formula of the bilateral, in float64. Radius and sigma_space in luma pixels; weights
    from the differences of `guides`, which are the image unless given."""
    planes = image if image.ndim == 3 else image[:, :, None]
    guides = planes if guides is None else guides
    height, width = planes.shape[:2]
    rx, ry = (math.ceil(radius / s) for s in subsampling)

    def extended(of):
        return extend(of, (rx, ry), border, 0).reshape(height + 2 * ry, width + 2 * rx, -1)

    extended_planes, extended_guides = extended(planes), extended(guides)
    total = np.zeros_like(planes)
    weights = np.zeros((height, width, 1))
    for dy in range(-ry, ry + 1):
        for dx in range(-rx, rx + 1):
            away = math.hypot(dx * subsampling[0], dy * subsampling[1])
            if window == "circle" and away > radius:
                continue
            shifted, guide = (
                of[ry + dy :, rx + dx :][:height, :width]
                for of in (extended_planes, extended_guides)
            )
            difference = np.abs(guide - guides)
            if distance == "l1":
                squared = difference.sum(axis=2, keepdims=True) ** 2
            else:
                squared = (difference**2).sum(axis=2, keepdims=True)
            weight = np.exp(
                -(away**2) / (2 * sigma_space**2) - squared / (2 * sigma_color**2)
            )
            total += weight * shifted
            weights += weight
    return (total / weights).reshape(image.shape)


def add_pictures(writer):
    random = np.random.default_rng(7)
    noise = lambda *shape: random.integers(0, 256, shape, dtype=np.uint8)
    y, x = np.mgrid[0:18, 0:24]
    shading = 60 + 5 * x + 3 * y
    disc = np.where((x - 9) ** 2 + (y - 8) ** 2 < 30, 70, 0)
    bar = np.where(np.abs(x - y - 8) < 2, -50, 0)
    scene = np.clip(shading + disc + bar + random.normal(0, 6, x.shape), 0, 255)
    scene = scene.astype(np.uint8)
    colour = np.stack([scene, scene[::-1], np.roll(scene, 5, axis=1)], axis=2)[:12, :16]

    impulse = np.zeros((9, 11), np.uint8)
    impulse[3, 6] = 255
    writer.picture("noise", "GRAY8", noise(11, 17))
    writer.picture("scene", "GRAY8", scene)
    writer.picture("impulse", "GRAY8", impulse)
    writer.picture("ramp", "GRAY8", np.tile(np.arange(0, 250, 10, dtype=np.uint8), (5, 1)))
    writer.picture("checks", "GRAY8", ((x + y)[:6, :7] % 2 * 255).astype(np.uint8))
    writer.picture("black", "GRAY8", np.zeros((4, 5), np.uint8))
    writer.picture("white", "GRAY8", np.full((4, 5), 255, np.uint8))
    writer.picture("pixel", "GRAY8", np.array([[200]], np.uint8))
    writer.picture("tiny", "GRAY8", noise(2, 3))
    writer.picture("row", "GRAY8", noise(1, 6))
    writer.picture("column", "GRAY8", noise(5, 1))
    writer.picture("deep", "GRAY16_LE", random.integers(0, 65536, (9, 11)).astype("<u2"))
    writer.picture("colour", "RGB", np.ascontiguousarray(colour))
    rgba = np.concatenate([noise(9, 10, 3), noise(9, 10, 1)], axis=2)
    rgba[2:7, 3:9, 3] = 0
    rgba[:, 0, 3] = 255
    writer.picture("glass", "RGBA", rgba)
    # Odd sizes, so that the last chroma sample stands for half as many pixels.
    writer.picture("i420", "I420", noise(9, 13), noise(5, 7), noise(5, 7))
    writer.picture("y42b", "Y42B", noise(9, 13), noise(9, 7), noise(9, 7))


def matrix(kernel):
    """A kernel as the property writes it."""
    rows = [",".join(f"{k:.9g}" for k in row) for row in kernel]
    return ";".join(rows) + (";" if len(rows) == 1 else "")


def add_presets(writer, picture, border):
    image = writer.pictures[picture]
    of = lambda kernel: correlate(image, kernel, border)
    add = lambda maker, result, **p: writer.case(
        picture, maker, result, border=border, **p
    )
    own_border = border != "wrap"
    kind = BORDERS[border][0]
    for name, radius in (("gauss3", 1), ("gauss5", 2), ("gauss7", 3), ("gauss9", 4)):
        result = of(gauss_kernel(radius, 0))
        if own_border:
            agree(opencv_gauss(image, radius, 0, border), result, 1e-12)
        add("cv2.GaussianBlur", result, kernel=name)
    for name, side in (("box3", 3), ("box5", 5), ("box7", 7)):
        result = of(np.full((side, side), 1 / side**2))
        if own_border:
            blurred = cv2.boxFilter(image, cv2.CV_64F, (side, side), borderType=kind)
            agree(blurred, result, 1e-12)
        add("cv2.boxFilter", result, kernel=name)
    for name, kernel in (("sobel", SOBEL_X), ("scharr", SCHARR_X), ("prewitt", PREWITT_X)):
        gx, gy = of(kernel), of(kernel.T)
        if own_border and name != "prewitt":
            size = 3 if name == "sobel" else cv2.FILTER_SCHARR
            for result, dx, dy in ((gx, 1, 0), (gy, 0, 1)):
                slope = cv2.Sobel(image, cv2.CV_64F, dx, dy, ksize=size, borderType=kind)
                agree(slope, result, 1e-12)
        maker = "cv2.filter2D" if name == "prewitt" else "cv2.Sobel"
        add(maker, gx, kernel=f"{name}-x")
        add(maker, gy, kernel=f"{name}-y")
        add(maker, np.hypot(gx, gy), kernel=name)
    result = of(LAPLACIAN)
    if own_border:
        agree(cv2.Laplacian(image, cv2.CV_64F, ksize=1, borderType=kind), result, 1e-12)
    add("cv2.Laplacian", result, kernel="laplacian")
    add("cv2.filter2D", of(EMBOSS), kernel="emboss")
    add("cv2.filter2D", image - of(LAPLACIAN), kernel="sharpen")
    add("cv2.filter2D", image - 0.3 * of(LAPLACIAN), kernel="sharpen", amount=0.3)
    blurred = of(gauss_kernel(3, 0.9))
    add(
        "cv2.GaussianBlur",
        image + 2.5 * (image - blurred),
        kernel="unsharp",
        radius=3,
        sigma=0.9,
        amount=2.5,
    )


def add_matrices(writer, border):
    random = np.random.default_rng(11)
    value = 40.0 if border == "constant" else 0.0
    # Nine different weights, one corner alone, a row, a column, two oblongs.
    nine = np.array([[3, -1, 4], [1, -5, 9], [2, 6, -7]], float)
    corner = np.zeros((3, 3))
    corner[0, 0] = 1
    row, column = np.array([[1.0, 2, 4, 8, 16]]), np.array([[5.0], [-2], [1]])
    oblong = random.integers(-9, 10, (3, 7)).astype(float)
    fractional = np.float64(np.float32(random.uniform(-1, 1, (5, 3))))
    for kernel in (nine, corner, row, column, oblong, fractional):
        total = kernel.sum()
        for picture in ("noise", "tiny"):
            result = correlate(writer.pictures[picture], kernel, border, value) / total
            writer.case(
                picture, "cv2.filter2D", result, kernel="custom", matrix=matrix(kernel),
                border=border, border_value=value,
            )


def add_sizes(writer):
    """Radii and sigmas, given and derived."""
    for border in BORDERS:
        for picture, radius, sigma in (("scene", 4, 1.7), ("tiny", 6, 3.0)):
            image = writer.pictures[picture]
            result = correlate(image, gauss_kernel(radius, sigma), border)
            writer.case(
                picture, "cv2.GaussianBlur", result, kernel="gauss", radius=radius,
                sigma=sigma, border=border,
            )
    noise = writer.pictures["noise"]
    border = "reflect101"
    # Sigma alone: three sigmas, rounded up. From 11 taps on OpenCV too derives sigma.
    result = opencv_gauss(noise, 5, 1.4, border)
    writer.case("noise", "cv2.GaussianBlur", result, kernel="gauss", sigma=1.4, border=border)
    result = opencv_gauss(noise, 6, 0, border)
    writer.case("noise", "cv2.GaussianBlur", result, kernel="gauss", radius=6, border=border)
    result = opencv_gauss(noise, 2, 1.1, border)
    writer.case("noise", "cv2.GaussianBlur", result, kernel="gauss", border=border)
    for radius in (1, 2, 9):
        size = (2 * radius + 1, 2 * radius + 1)
        result = cv2.blur(noise, size, borderType=cv2.BORDER_REFLECT_101)
        writer.case("noise", "cv2.blur", result, kernel="box", radius=radius, border=border)
    result = cv2.blur(noise, (3, 3), borderType=cv2.BORDER_REFLECT_101)
    writer.case("noise", "cv2.blur", result, kernel="box", border=border)


def add_levels(writer):
    """Divisor, bias, limited range, 16 bits, colour and alpha."""
    noise, deep = writer.pictures["noise"], writer.pictures["deep"]
    of = lambda image, kernel, value=0.0: correlate(image, kernel, "constant", value)
    result = of(noise, SOBEL_X) / 8 + 128
    writer.case(
        "noise", "cv2.Sobel", result, kernel="sobel-x", divisor=8, bias=128, border="constant"
    )
    gx, gy = of(noise, SOBEL_X), of(noise, SOBEL_X.T)
    writer.case(
        "noise", "cv2.Sobel", np.hypot(gx, gy) / 4 - 10, kernel="sobel", divisor=4, bias=-10,
        border="constant",
    )
    for value in (0, 25):
        result = 16 + of(noise - 16, EMBOSS, value) / 2 + 5
        writer.case(
            "noise", "cv2.filter2D", result, kernel="emboss", divisor=2, bias=5,
            border="constant", border_value=value, range="limited",
        )
        result = 4096 + of(deep - 4096, EMBOSS, value * 256) / 3 + 5 * 256
        writer.case(
            "deep", "cv2.filter2D", result, kernel="emboss", divisor=3, bias=5,
            border="constant", border_value=value, range="limited",
        )
    for border in BORDERS:
        result = correlate(deep, gauss_kernel(4, 0), border)
        writer.case("deep", "cv2.GaussianBlur", result, kernel="gauss9", border=border)
        colour = writer.pictures["colour"]
        result = correlate(colour, gauss_kernel(3, 1.0), border)
        writer.case(
            "colour", "cv2.GaussianBlur", result, kernel="gauss", sigma=1.0, border=border
        )

    glass = writer.pictures["glass"]
    kernel = gauss_kernel(1, 0)
    for border in ("replicate", "wrap"):
        alpha = correlate(glass[:, :, 3], kernel, border)
        colours = correlate(glass[:, :, :3] * glass[:, :, 3:], kernel, border)
        straight = np.where(
            alpha[:, :, None] > 0, colours / np.maximum(alpha, 1e-9)[:, :, None], 0
        )
        for mode, result in (
            ("premultiply", np.dstack([straight, alpha])),
            ("filter", correlate(glass, kernel, border)),
            ("copy", np.dstack([correlate(glass, kernel, border)[:, :, :3], glass[:, :, 3]])),
        ):
            writer.case("glass", "cv2.GaussianBlur", result, kernel="gauss3", alpha=mode, border=border)


def add_subsampled(writer):
    """Sizes in luma pixels on the grids of chroma."""
    for picture, chroma in (("i420", (2, 2)), ("y42b", (2, 1))):
        planes = list(zip(writer.pictures[picture], ((1, 1), chroma, chroma)))
        border = "reflect"

        def add(maker, result, **properties):
            writer.case(picture, maker, result, border=border, **properties)

        blurred = [correlate(p, gauss_kernel(3, 1.5, s), border) for p, s in planes]
        add("cv2.GaussianBlur", blurred, kernel="gauss", radius=3, sigma=1.5)
        sharp = [p + 0.8 * (p - b) for (p, _), b in zip(planes, blurred)]
        add("cv2.GaussianBlur", sharp, kernel="unsharp", radius=3, sigma=1.5, amount=0.8)
        sides = [[2 * math.ceil(3 / n) + 1 for n in s] for _, s in planes]
        boxes = [np.full((y, x), 1 / (x * y)) for x, y in sides]
        result = [correlate(p, box, border) for (p, _), box in zip(planes, boxes)]
        add("cv2.blur", result, kernel="box", radius=3)
        for window in ("circle", "square"):
            result = [bilateral(p, 5, 3, 60, border, window, "l1", s) for p, s in planes]
            add(
                "formula", result, kernel="bilateral", radius=5, sigma_space=3, sigma_color=60,
                window=window,
            )
        # Presets keep their coefficients; edges are of luma, with neutral or other chroma.
        kernel = gauss_kernel(2, 0)
        result = [correlate(p, kernel, border) for p, _ in planes]
        add("cv2.GaussianBlur", result, kernel="gauss5")
        add("cv2.GaussianBlur", [result[0]] + [p for p, _ in planes[1:]], kernel="gauss5", planes="luma")
        edges = [z + correlate(p - z, LAPLACIAN, border) for (p, _), z in zip(planes, (16, 128, 128))]
        add("cv2.Laplacian", edges, kernel="laplacian", planes="all")
        neutral = [np.full_like(p, 128) for p, _ in planes[1:]]
        add("cv2.Laplacian", [edges[0]] + neutral, kernel="laplacian")
        add("cv2.Laplacian", [edges[0]] + [p for p, _ in planes[1:]], kernel="laplacian", planes="luma")


def add_bilateral_alpha(writer):
    """Alpha by itself; colours straight, or multiplied by alpha and weighed by that product."""
    glass = writer.pictures["glass"]
    colours, alpha = glass[:, :, :3], glass[:, :, 3:]
    size = (3, 2, 120, "reflect", "circle", "l1")
    of = lambda image, guides: bilateral(image, *size, guides=guides)
    products = colours * alpha / 255
    opacity = of(alpha, products) / 255
    straight = np.where(opacity > 0, of(products, products) / np.maximum(opacity, 1e-9), 0)
    smooth_alpha = of(alpha, alpha)
    for mode, result in (
        ("copy", np.dstack([of(colours, colours), alpha])),
        ("filter", np.dstack([of(colours, colours), smooth_alpha])),
        ("premultiply", np.dstack([straight, smooth_alpha])),
    ):
        writer.case(
            "glass", "formula", result, kernel="bilateral", radius=3, sigma_space=2,
            sigma_color=120, border="reflect", alpha=mode,
        )


def add_bilaterals(writer):
    def both(picture, radius, space, color, border, window="circle", distance="l1", scale=1):
        image = writer.pictures[picture]
        result = bilateral(image, radius, space, color * scale, border, window, distance)
        maker, tolerance = "formula", EXACT
        if window == "circle" and distance == "l1":
            by_opencv = cv2.bilateralFilter(
                image.astype(np.float32), 2 * radius + 1, color * scale, space,
                borderType=BORDERS[border][0],
            )
            agree(by_opencv, result, 2e-5)
            result, maker, tolerance = by_opencv, "cv2.bilateralFilter", "2e-5"
        writer.case(
            picture, maker, result, tolerance, kernel="bilateral", radius=radius,
            sigma_space=space, sigma_color=color, window=window, distance=distance,
            border=border,
        )

    for border in BORDERS:
        both("scene", 4, 2.5, 30, border)
        both("colour", 3, 2, 40, border)
        both("tiny", 5, 4, 60, border)
    both("scene", 1, 0.5, 10, "reflect101")
    both("scene", 7, 5, 25, "reflect101")
    both("scene", 2, 100, 255, "reflect101")
    both("deep", 3, 2, 50, "replicate", scale=256)
    for window in ("circle", "square"):
        for distance in ("l1", "l2"):
            both("colour", 3, 2, 40, "reflect", window, distance)
    both("scene", 3, 2, 20, "wrap", "square")
    add_bilateral_alpha(writer)
    # The derived radius: 1.5 sigma, halves to even.
    for space, radius in ((3, 4), (2.2, 3), (0.1, 1)):
        image = writer.pictures["scene"].astype(np.float32)
        result = cv2.bilateralFilter(image, 0, 35, space, borderType=cv2.BORDER_REFLECT_101)
        formula = bilateral(
            image.astype(float), radius, space, 35, "reflect101", "circle", "l1"
        )
        agree(result, formula, 2e-5)
        writer.case(
            "scene", "cv2.bilateralFilter", result, "2e-5", kernel="bilateral",
            sigma_space=space, sigma_color=35, border="reflect101",
        )


def main():
    writer = Writer()
    add_pictures(writer)
    for border in BORDERS:
        add_presets(writer, "noise", border)
        add_matrices(writer, border)
    for picture in ("impulse", "ramp", "checks", "black", "white", "pixel", "row", "column"):
        add_presets(writer, picture, "reflect101")
    add_sizes(writer)
    add_levels(writer)
    add_subsampled(writer)
    add_bilaterals(writer)
    writer.save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
