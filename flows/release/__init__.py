"""The release flow, from the plan and the charge to the published folder."""
