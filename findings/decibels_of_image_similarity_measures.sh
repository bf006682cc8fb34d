#!/usr/bin/env bash
# image-similarity-measures 0.3.6, PSNR and SSIM of two photos of 8 bits, as its README calls them.
# Expected: PSNR with a peak of 255 for uint8, as scikit-image 0.26.0 takes it, or a question.
# Seen: the peak is 4095, of satellites' 12 bits, whatever the type is: 24.1 dB too much, SSIM near 1 whatever
#   the noise is, and `rmse` in parts of 4095. Its command line has no option for it.
# Who meets it: whoever compares rendered views with photos, and the numbers with those of papers.
. "$(dirname "$0")/environment"
packages scikit-image==0.26.0 opencv-python-headless==5.0.0.93 phasepack==1.5 numpy==2.4.6
python -m pip install --quiet --disable-pip-version-check --no-deps image-similarity-measures==0.3.6
python -W ignore - <<'PY'
import numpy as np
from image_similarity_measures.quality_metrics import psnr, rmse, ssim
from skimage.data import astronaut
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

photo = astronaut()
random = np.random.default_rng(0)
for sigma in (10, 60):
    noisy = np.clip(np.rint(photo + random.normal(0, sigma, photo.shape)), 0, 255).astype(np.uint8)
    theirs, right = psnr(photo, noisy), peak_signal_noise_ratio(photo, noisy)
    flat, known = ssim(photo, noisy), structural_similarity(photo, noisy, channel_axis=2)
    error = np.sqrt(((photo - noisy.astype(float)) ** 2).mean())
    print(f"noise {sigma}: PSNR {theirs:.2f} for {right:.2f} dB, SSIM {flat:.3f} for {known:.3f}, RMSE {rmse(photo, noisy):.5f} for {error:.2f}")
    assert abs(theirs - right - 20 * np.log10(4095 / 255)) < 0.2, "changed"
    assert flat > known + 0.3, "changed"
assert abs(psnr(photo, noisy, max_p=255) - right) < 0.2
PY
