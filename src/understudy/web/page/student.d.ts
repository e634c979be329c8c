/** A row: a text, or an object with the fields of the artifact. */
export type Row = string | Record<string, string | string[]>;

/** A prediction. Its keys depend on the kind of the student, as understudy's Predictor describes them. */
export interface Prediction {
  label?: string;
  labels?: string[];
  choice?: number;
  answer?: string;
  has_answer?: boolean;
  entities?: { label: string; text: string; start: number; end: number; score: number }[];
  /** UTF-16 units, so that text.slice(start, end) is the answer. */
  start?: number;
  end?: number;
  score?: number;
  /** The output of an embedding model. */
  vector?: number[];
  probabilities?: Record<string, number> | number[];
  truncated?: boolean;
}

export interface LoadOptions {
  /** Folder of this file, if the student lies elsewhere. */
  base?: URL;
  onProgress?: (loaded: number, total: number) => void;
}

export class Predictor {
  static load(options?: LoadOptions): Promise<Predictor>;
  readonly artifact: { task: string; kind: string; fields: string[]; labels: string[] | null; [key: string]: unknown };
  predict(row: Row): Promise<Prediction>;
}
