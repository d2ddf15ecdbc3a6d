# The device library of CUDA, which trainers load (proto/device/loader.h): ringway_cuda, where the CUDA Toolkit (12.x or 13.x)
# is. It has the library's version. Part of the whole build, and of the Python module's, which has a project of its own.
find_package(Threads REQUIRED)
find_package(CUDAToolkit 12.0 QUIET GLOBAL)
if(TARGET CUDA::cudart_static)
  get_filename_component(RINGWAY_ROOT ${CMAKE_CURRENT_LIST_DIR}/../.. ABSOLUTE)
  add_library(ringway_cuda SHARED ${CMAKE_CURRENT_LIST_DIR}/cuda_library.cc)
  set_target_properties(ringway_cuda PROPERTIES OUTPUT_NAME ringway-cuda CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_include_directories(ringway_cuda PRIVATE ${RINGWAY_ROOT} ${RINGWAY_ROOT}/proto/include)
  target_link_libraries(ringway_cuda PRIVATE CUDA::cudart_static Threads::Threads)
  target_link_options(ringway_cuda PRIVATE LINKER:--exclude-libs,ALL)
endif()
