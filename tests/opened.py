"""A report in a browser, and all that it said and asked for."""

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


class Opened:
    """A page, and all that it said and asked for."""

    def __init__(self, page):
        self.page, self.said, self.asked = page, [], []
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))

    def open(self, file):
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("html[data-drawn='0']")
        return self

    def cards(self):
        """Return what the first card in sight of each agent says."""
        found = {}
        for card in self.page.locator(".card:visible").all():
            facts = dict(
                zip(
                    card.locator("dt").all_inner_texts(),
                    card.locator("dd").all_inner_texts(),
                    strict=True,
                )
            )
            facts["coverage"] = card.locator(".figure").inner_text()
            facts["interval"] = card.locator(".interval").inner_text()
            found.setdefault(card.locator("h4").inner_text(), facts)
        return found

    def press(self, name):
        self.page.get_by_role("button", name=name, exact=True).and_(
            self.page.locator(":visible:not(.sort)")
        ).click()


def grave(opened, axe):
    """Return what axe finds serious or critical on a page."""
    opened.page.evaluate(axe)
    found = opened.page.evaluate("axe.run({resultTypes: ['violations']})")
    assert found["passes"]
    return [
        (v["id"], v["impact"], [node["html"][:120] for node in v["nodes"][:3]])
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
    ]
