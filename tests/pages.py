"""A page as a browser without scripts sees it."""

from html.parser import HTMLParser


class Read(HTMLParser):
    """The tags, addresses and visible words of a page."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.addresses, self.words, self.scripts = [], [], [], []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style" and data.strip():
            self.words.append(data.strip())
