"""The steps of a release, which do not depend on an orchestrator. Each step uses the private working folder."""
