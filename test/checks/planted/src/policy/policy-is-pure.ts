import '../tools/kit/tool.ts'
