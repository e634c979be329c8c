"""A page to try a model by hand."""

from __future__ import annotations

import html
import json

from understudy.serve.models import ServedModel

_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 40rem; margin: 2rem auto; padding: 0 1rem; }}
  label {{ display: block; font-weight: 600; margin-top: 1rem; }}
  textarea {{ width: 100%; box-sizing: border-box; font: inherit; min-height: 5rem; padding: .5rem; }}
  button {{ font: inherit; margin: 1rem 0; padding: .4rem 1.2rem; }}
  pre {{ background: #f4f4f6; padding: 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }}
  small {{ color: #555; }}
</style>
<h1>{title}</h1>
<p>{about}</p>
<form id="form">
{inputs}
<button>Predict</button>
</form>
<pre id="answer" hidden></pre>
<p><small id="time"></small></p>
<script>
const lists = {lists};
document.getElementById("form").addEventListener("submit", async (event) => {{
  event.preventDefault();
  const row = {{}};
  for (const [name, value] of new FormData(event.target)) {{
    row[name] = lists.includes(name) ? value.split("\\n").filter((line) => line) : value;
  }}
  const answer = document.getElementById("answer"), started = performance.now();
  try {{
    const response = await fetch("predict/{name}", {{ method: "POST", body: JSON.stringify(row) }});
    answer.textContent = JSON.stringify(await response.json(), null, 2);
  }} catch (error) {{
    answer.textContent = `No answer: ${{error.message}}`;
  }}
  answer.hidden = false;
  const taken = (performance.now() - started).toFixed(0);
  document.getElementById("time").textContent = `${{taken}} ms round trip`;
}});
</script>
</html>
"""


def render_form(model: ServedModel) -> str:
    """Return the page with a field for each input of a model."""
    predictor = model.loaded.predictor
    artifact, kind = predictor.artifact, predictor.kind
    inputs = "\n".join(
        f'<label for="{html.escape(name)}">{html.escape(name.replace("_", " "))}'
        f"{' (one per line)' if name in kind.list_fields else ''}</label>"
        f'<textarea id="{html.escape(name)}" name="{html.escape(name)}"></textarea>'
        for name in artifact.fields
    )
    labels = f" Labels: {', '.join(predictor.labels)}." if predictor.labels else ""
    what = kind.name.replace("-", " ").capitalize()
    return _PAGE.format(
        title=html.escape(f"{model.name}: {artifact.task}"),
        about=html.escape(f"{what}, {artifact.parameters / 1e6:.1f}M parameters.{labels}"),
        inputs=inputs,
        lists=json.dumps(list(kind.list_fields)).replace("<", "\\u003c"),
        name=model.name,
    )
