"""Settings of nbgrader for this course. `nbgrader`, the formgrader and `attncourse` all read this file."""

import warnings
from pathlib import Path

c = get_config()

c.CourseDirectory.course_id = "attention"
c.CourseDirectory.root = str(Path(__file__).resolve().parent / "gradebook")

# A cell that runs longer is interrupted, and the rest of the notebook still runs.
c.Execute.timeout = 60  # seconds
c.Execute.shutdown_kernel = "immediate"
# The kernel would warn about each local connection.
c.Execute.extra_arguments = ["--log-level=ERROR"]
# A learner who deletes a test cell is still tested.
c.OverwriteCells.add_missing_cells = True
c.Autograde.autograde_preprocessors = [
    "attncourse.grading.execute.RunCells",
    "nbgrader.preprocessors.IgnorePattern",
    "nbconvert.preprocessors.ClearMetadataPreprocessor",
    "nbgrader.preprocessors.LimitOutput",
    "nbgrader.preprocessors.SaveAutoGrades",
    "nbgrader.preprocessors.AssignLatePenalties",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# Feedback pages show no hidden test, run nothing that a learner wrote, and load nothing.
c.GenerateFeedback.exporter_class = "attncourse.grading.feedback.FeedbackPage"
c.GenerateFeedback.preprocessors = [
    "nbgrader.preprocessors.GetGrades",
    "attncourse.grading.feedback.TellPending",
    "attncourse.grading.feedback.HideTests",
    "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
c.HTMLExporter.sanitize_html = True
c.HTMLExporter.filters = {"markdown2html": "attncourse.grading.feedback.safe_markdown"}

# Harmless, from nbgrader 0.9 with SQLAlchemy 2.1, and long.
warnings.filterwarnings("ignore", module=r"nbgrader\.api", message="Object of type")
