import '../catalog/tool.ts'
