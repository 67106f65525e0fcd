import { compilePolicy as compile, type CompiledPolicy, type PolicySource } from '../../src/policy/compile.ts'
import { facts } from '../../src/tools/index.ts'

/** Compiles rules with the facts of the real tools. */
export const compilePolicy = (source: PolicySource): CompiledPolicy => compile(facts, source)
