import { ToolFacts } from '../policy/tool-facts.ts'
import { catalog } from './index.ts'
import { severalIn } from './kit/tool.ts'

/** What rules know of the tools: each declaration, with the names of its parameters in place of their schema. */
export const facts = new ToolFacts(
  Object.values(catalog).map((tool) => ({
    ...tool,
    params: Object.keys(tool.params.shape),
    several: severalIn(tool),
  })),
)
