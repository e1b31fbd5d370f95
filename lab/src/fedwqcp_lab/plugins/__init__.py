"""Methods and a score that studies compare with; they are plug-ins of fedwqcp."""
