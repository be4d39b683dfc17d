"""Turn a release of equistrata's own into the embedded sample (see card.md; needs ACS files, which are not here).

    equistrata release --source folktables --root-dir ACS --state NY --year 2024 --schema acs_records \\
        --strata SEX,RAC1P --epsilon 2 --rows 20000 --evaluate none --output RELEASE
    python docs/make_sample.py RELEASE
"""

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd

# ESP (employment status of parents) is not in that extract. It is drawn, given AGEP < 18 alone, from round figures of
# our own choosing, so that the ten columns of the employment task are all there.
ESP_UNDER_18 = {0: 0.14, 1: 0.39, 2: 0.17, 3: 0.04, 4: 0.02, 5: 0.05, 6: 0.01, 7: 0.13, 8: 0.05}

release, here = Path(sys.argv[1]), Path(__file__).parents[1] / "data" / "sample"
frame = pd.read_parquet(release / "synthetic.parquet")
drawn = np.random.default_rng().choice(list(ESP_UNDER_18), len(frame), p=list(ESP_UNDER_18.values()))
frame.insert(4, "ESP", np.where(frame["AGEP"] < 18, drawn, 0))
for name in ("MIL", "DREM", "ESP", "ESR"):  # as in the survey's files, not applicable is blank
    frame[name] = frame[name].astype("Int64").replace(0, pd.NA)
frame.to_parquet(here / "ny2024_synthetic.parquet", index=False, compression="zstd")
shutil.copy(release / "card.json", here / "release_card.json")
