# Finds libtorch, in a Python environment or unpacked anywhere, as the target LibTorch::LibTorch.
#
# Why not find_package(Torch): with a CUDA build of torch that asks for the CUDA toolkit, which we
# never compile against. All our code calls ATen and c10d only, so the four libraries below serve the
# CPU and the CUDA builds alike.
#
# Input:  Torch_DIR (as for find_package(Torch)), or CMAKE_PREFIX_PATH, or Python_EXECUTABLE.
# Output: LibTorch::LibTorch, LibTorch::Python (torch's pybind11 and libtorch_python), LibTorch_VERSION,
#         LibTorch_LIBRARY_DIR.

if(NOT Torch_DIR)
  find_path(_torch_config_dir TorchConfig.cmake PATH_SUFFIXES share/cmake/Torch NO_CACHE)
  if(_torch_config_dir)
    set(Torch_DIR ${_torch_config_dir})
  else()
    find_package(Python COMPONENTS Interpreter)
    if(Python_EXECUTABLE)
      execute_process(
        COMMAND ${Python_EXECUTABLE} -c
                "import importlib.util as u, os; s = u.find_spec('torch'); print(os.path.join(os.path.dirname(s.origin), 'share/cmake/Torch') if s else '')"
        OUTPUT_VARIABLE Torch_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
    endif()
  endif()
endif()

get_filename_component(_prefix "${Torch_DIR}/../../.." ABSOLUTE)
set(LibTorch_LIBRARY_DIR ${_prefix}/lib)
find_path(LibTorch_INCLUDE_DIR torch/csrc/distributed/c10d/reducer.hpp PATHS ${_prefix}/include NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu PATHS ${LibTorch_LIBRARY_DIR} NO_DEFAULT_PATH)

if(LibTorch_INCLUDE_DIR)
  file(READ ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h _version_text)
  string(REGEX MATCH "TORCH_VERSION_MAJOR ([0-9]+)" _ "${_version_text}")
  set(LibTorch_VERSION ${CMAKE_MATCH_1})
  foreach(_part MINOR PATCH)
    string(REGEX MATCH "TORCH_VERSION_${_part} ([0-9]+)" _ "${_version_text}")
    string(APPEND LibTorch_VERSION .${CMAKE_MATCH_1})
  endforeach()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_CPU_LIBRARY LibTorch_INCLUDE_DIR VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "Install torch into the Python environment named by Python_EXECUTABLE, or set Torch_DIR.")

# at::parallel_for is a template: it runs on several threads only where it is compiled with OpenMP, and
# shares torch's threads only with torch's own OpenMP library, which the wheel brings along.
file(GLOB _openmp_library ${LibTorch_LIBRARY_DIR}/libgomp*.so*)
if(NOT _openmp_library)
  set(_openmp_library gomp)
endif()

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE
    ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/torch/csrc/api/include)
  # --no-as-needed: libtorch registers its kernels when loaded, so it must be loaded even where no
  # symbol of it is named.
  target_link_libraries(LibTorch::LibTorch INTERFACE
    "-Wl,--no-as-needed" ${LibTorch_LIBRARY_DIR}/libtorch.so ${LibTorch_CPU_LIBRARY}
    ${LibTorch_LIBRARY_DIR}/libc10.so "-Wl,--as-needed")
  add_library(LibTorch::OpenMP INTERFACE IMPORTED)
  target_compile_options(LibTorch::OpenMP INTERFACE -fopenmp)
  target_link_libraries(LibTorch::OpenMP INTERFACE ${_openmp_library})
  add_library(LibTorch::Python INTERFACE IMPORTED)
  target_link_libraries(LibTorch::Python INTERFACE LibTorch::LibTorch ${LibTorch_LIBRARY_DIR}/libtorch_python.so)
endif()
