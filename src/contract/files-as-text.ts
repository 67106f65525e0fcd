import type { ToolDeclaration } from '../tools/kit/tool.ts'
import type { Json, JsonObject } from '../policy/types.ts'
import { filesInput } from '../policy/templates.ts'
import { wholeReference } from './forms.ts'
import { accepts, fieldsOf } from './tool-params.ts'

/**
 * If a parameter takes text and no list, such as a prompt, exactly `{{input.uploaded_files}}` becomes the
 * text of the files. In other parameters it stays the list.
 */
export function withFilesAsText(tool: ToolDeclaration, params: JsonObject): JsonObject {
  if (!Object.values(params).some(isAllFiles)) return params
  const fields = fieldsOf(tool)
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => {
      const field = Object.hasOwn(fields, name) ? fields[name] : undefined
      const isText = field !== undefined && accepts(field, 'text') && !accepts(field, [{}])
      // A template with two parts always resolves to text, so an empty part comes first.
      return [name, isAllFiles(value) && isText ? `{{''}}${value}` : value]
    }),
  )
}

function isAllFiles(value: Json): value is string {
  if (typeof value !== 'string' || !value.includes(filesInput)) return false
  const reference = wholeReference(value)
  return reference?.kind === 'input' && reference.name === filesInput && reference.path.length === 0
}
