"""What a learner has reached so far."""

from attncourse.checks.judge import VERDICTS


def points_so_far(**points: int) -> None:
    """Prints a table of the functions of a set, with the points that their last checks gave.

    Args:
        points: what each function is worth, by its name.
    """
    reached = {name: worth if VERDICTS.get(name) else 0 for name, worth in points.items()}
    width = max(map(len, points))
    for name, worth in points.items():
        text = {None: "its check has not run yet", False: "not yet right", True: "✓"}[VERDICTS.get(name)]
        print(f"{name:{width}}  {reached[name]} of {worth}  {text}")
    print(f"\n{sum(reached.values())} of {sum(points.values())} points. More tests run at grading.")
