// Runs the student beside the page, so that the page never freezes.

import { Predictor } from "./student.js";

const loading = Predictor.load({
  onProgress: (loaded, total) => postMessage({ type: "progress", loaded, total }),
});
loading.then(
  ({ artifact }) => postMessage({ type: "ready", artifact }),
  (error) => postMessage({ type: "failed", message: error.message }),
);

addEventListener("message", async ({ data: { id, row } }) => {
  try {
    const predictor = await loading;
    const started = performance.now();
    const prediction = await predictor.predict(row);
    postMessage({ type: "prediction", id, prediction, milliseconds: performance.now() - started });
  } catch (error) {
    postMessage({ type: "prediction", id, error: error.message });
  }
});
